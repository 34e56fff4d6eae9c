event  count  total ms  mean ms  least ms  greatest ms
