/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy other programs keep the machine while something is measured: what a busy machine shows is less than it can. */
#ifndef SAMBA_BUSY_H
#define SAMBA_BUSY_H

typedef struct samba_busy_mark { /* a moment */
    double seconds;              /* the clock's */
    double machine;              /* that all processors have worked since the machine began; < 0: nothing tells */
    double process;              /* that the threads of this program have */
} samba_busy_mark;

samba_busy_mark samba_busy_begin(void);
/* Of the processors' time since then, what other programs had, 0 .. 1; below 0 where nothing tells. Work is counted in ticks of
 * a hundredth of a second, so that less than a tenth of a second says little. */
double samba_busy_others(const samba_busy_mark *begin);
/* What is worth a line behind a training of so many threads: others had a quarter or more, for five seconds or more. "": not. */
const char *samba_busy_notice(const samba_busy_mark *begin, int threads, char text[static 160]);

#endif
