/* SPDX-License-Identifier: Apache-2.0
 *
 * A bar that is redrawn in place ten times a second, on a terminal only: a log file gets whole lines from whoever trains. */
#include "app/app.h"

#include <unistd.h>

void samba_progress_begin(samba_progress *progress, FILE *file, const char *label, int64_t total, int64_t samples_per_step)
{
    *progress = (samba_progress){.file = file,
                                 .bar = isatty(fileno(file)),
                                 .total = total,
                                 .samples_per_step = samples_per_step,
                                 .start = samba_seconds(),
                                 .label = label};
}

void samba_progress_step(samba_progress *progress, int64_t done, double loss)
{
    enum { WIDTH = 24 };
    if (!progress->bar)
        return;
    double now = samba_seconds(), spent = now - progress->start;
    if (now - progress->drawn < 0.1 || done == 0)
        return;
    progress->drawn = now;
    double share = (double)done / (double)progress->total, left = spent * (1 - share) / share;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(share * WIDTH) ? '=' : ' ';
    bar[WIDTH] = '\0';
    fprintf(progress->file, "\r%s [%s] %3.0f %%  %.0f samples/s  %d:%02d left  loss %.4f\033[K", progress->label, bar,
            100 * share, (double)(done * progress->samples_per_step) / spent, (int)left / 60, (int)left % 60, loss);
    fflush(progress->file);
}

void samba_progress_end(samba_progress *progress)
{
    if (progress->bar)
        fputs("\r\033[K", progress->file);
}
