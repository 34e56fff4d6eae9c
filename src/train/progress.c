/* SPDX-License-Identifier: Apache-2.0
 *
 * A bar that is redrawn in place ten times a second, on a terminal; a file gets whole lines, more and more seldom, so that a log
 * stays short. */
#include <sambaflow/train.h>
#include "base/base.h"

#include <unistd.h>

enum { WIDTH = 24 };

void samba_progress_begin(samba_progress *progress, FILE *file, const char *label, int64_t total, int64_t samples_per_step)
{
    if (!progress)
        return;
    *progress = (samba_progress){0};
    if (!file)
        return;
    *progress = (samba_progress){.file = file,
                                 .bar = isatty(fileno(file)),
                                 .total = total,
                                 .samples_per_step = samples_per_step,
                                 .start = samba_seconds(),
                                 .next_line = 10,
                                 .label = label};
}

static int seconds_left(double share, double spent) { return (int)(spent * (1 - share) / share); }

static void fill_bar(char bar[WIDTH + 1], double share)
{
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(share * WIDTH) ? '=' : ' ';
    bar[WIDTH] = '\0';
}

static bool line_is_due(samba_progress *progress, double spent)
{
    if (spent < progress->next_line)
        return false;
    while (progress->next_line <= spent)
        progress->next_line *= 2;
    return true;
}

static void print_line(samba_progress *progress, int64_t done, double loss)
{
    const double spent = samba_seconds() - progress->start;
    if (done == 0 || !line_is_due(progress, spent))
        return;
    fprintf(progress->file, "%s  step %lld", progress->label, (long long)done);
    if (progress->total > 0) {
        const int left = seconds_left((double)done / (double)progress->total, spent);
        fprintf(progress->file, "/%lld  %d:%02d left", (long long)progress->total, left / 60, left % 60);
    }
    fprintf(progress->file, "  %.0f samples/s  loss %.4f\n", (double)(done * progress->samples_per_step) / spent, loss);
    fflush(progress->file);
}

void samba_progress_step(samba_progress *progress, int64_t done, double loss)
{
    if (!progress || !progress->file)
        return;
    if (!progress->bar && progress->lines)
        print_line(progress, done, loss);
    if (!progress->bar)
        return;
    double now = samba_seconds(), spent = now - progress->start;
    if (now - progress->drawn < 0.1 || done == 0)
        return;
    progress->drawn = now;
    if (progress->total <= 0) {
        fprintf(progress->file, "\r%s  step %lld  %.0f samples/s  loss %.4f\033[K", progress->label, (long long)done,
                (double)(done * progress->samples_per_step) / spent, loss);
        fflush(progress->file);
        return;
    }
    double share = (double)done / (double)progress->total;
    char bar[WIDTH + 1];
    const int left = seconds_left(share, spent);
    fill_bar(bar, share);
    fprintf(progress->file, "\r%s [%s] %3.0f %%  %.0f samples/s  %d:%02d left  loss %.4f\033[K", progress->label, bar,
            100 * share, (double)(done * progress->samples_per_step) / spent, left / 60, left % 60, loss);
    fflush(progress->file);
}

void samba_progress_share(samba_progress *progress, double share, const char *words)
{
    if (!progress || !progress->file)
        return;
    double now = samba_seconds(), spent = now - progress->start;
    if (share <= 0)
        return;
    const int left = seconds_left(share, spent);
    if (!progress->bar) {
        if (progress->lines && line_is_due(progress, spent)) {
            fprintf(progress->file, "%s  %.0f %%  %d:%02d left  %s\n", progress->label, 100 * share, left / 60, left % 60, words);
            fflush(progress->file);
        }
        return;
    }
    if (now - progress->drawn < 0.1)
        return;
    progress->drawn = now;
    char bar[WIDTH + 1];
    fill_bar(bar, share);
    fprintf(progress->file, "\r%s [%s] %3.0f %%  %d:%02d left  %s\033[K", progress->label, bar, 100 * share, left / 60, left % 60,
            words);
    fflush(progress->file);
}

void samba_progress_end(samba_progress *progress)
{
    if (progress && progress->file && progress->bar)
        fputs("\r\033[K", progress->file);
}
