/* Shows the bytes of a slow transfer on a terminal. */
#include "clients/cli/meter.h"
#include "clients/cli/human.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/report.h"
#include "clients/cli/term.h"

static void show(void *ctx, int64_t up, int64_t down, int64_t down_total)
{
    struct meter *meter = ctx;
    char done[HUMAN_SIZE], all[HUMAN_SIZE];
    double now = interrupt_clock();
    int64_t total = up > 0 ? meter->upload_total : down_total;
    if (now < meter->next)
        return;
    meter->next = now + 0.25;
    meter->shown = true;
    fprintf(stderr, "\r\033[K%s", human_bytes(done, (double)(up > 0 ? up : down)));
    if (total > 0)
        fprintf(stderr, " of %s", human_bytes(all, (double)total));
    fflush(stderr);
}

void meter_attach(struct meter *meter, struct request *request)
{
    *meter = (struct meter){.next = interrupt_clock() + 0.5, .upload_total = request->upload_size};
    if (!report_notes_wanted() || !term_is_terminal(stderr))
        return;
    request->progress = show;
    request->progress_ctx = meter;
}

void meter_end(struct meter *meter)
{
    if (meter->shown)
        fputs("\r\033[K", stderr);
    meter->shown = false;
}
