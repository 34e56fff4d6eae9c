/* SPDX-License-Identifier: Apache-2.0
 *
 * Linux counts the work of all processors in /proc/stat. What this program did of it, its own clock says. */
#include "base/busy.h"
#include "base/base.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* "cpu  user nice system idle iowait irq softirq steal ...", in ticks: idle and iowait are no work. What a hypervisor gave to
 * others (steal) was not there for this machine either. */
static double machine_worked(void)
{
    unsigned long long ticks[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    int count = file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", ticks, ticks + 1, ticks + 2, ticks + 3,
                              ticks + 4, ticks + 5, ticks + 6, ticks + 7)
                     : 0;
    if (file)
        fclose(file);
    long second = sysconf(_SC_CLK_TCK);
    if (count < 8 || second <= 0)
        return -1;
    return (double)(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]) / (double)second;
}

static double process_worked(void)
{
    struct timespec worked;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &worked);
    return (double)worked.tv_sec + 1e-9 * (double)worked.tv_nsec;
}

samba_busy_mark samba_busy_begin(void) { return (samba_busy_mark){samba_seconds(), machine_worked(), process_worked()}; }

double samba_busy_others(const samba_busy_mark *begin)
{
    const samba_busy_mark now = samba_busy_begin();
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double all = (now.seconds - begin->seconds) * (double)(processors > 0 ? processors : 1);
    if (begin->machine < 0 || now.machine < 0 || all <= 0)
        return -1;
    double share = (now.machine - begin->machine - (now.process - begin->process)) / all;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

const char *samba_busy_notice(const samba_busy_mark *begin, int threads, char text[static 160])
{
    enum { ROOM = 160 };
    const double others = samba_busy_others(begin), least = 0.25, seconds = 5;
    text[0] = '\0';
    if (others >= least && samba_seconds() - begin->seconds >= seconds)
        snprintf(text, ROOM, "other programs had %.0f %% of the processors meanwhile%s", 100 * others,
                 threads > 1 ? ": threads of a step wait for the slowest, so that fewer of them may be faster" : "");
    return text;
}
