/* SPDX-License-Identifier: Apache-2.0
 *
 * The form of results: units a person reads, tables whose columns line up, JSON objects for programs. A failure to write is an
 * error: a full disk behind stdout must not pass for success. */
#include "app/app.h"

#include <errno.h>
#include <math.h>
#include <string.h>

char *samba_text_bytes(char buffer[SAMBA_CELL], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (fabs(bytes) >= 1024 && unit < SAMBA_COUNT(units) - 1) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer, SAMBA_CELL, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buffer;
}

char *samba_text_decimal(char buffer[SAMBA_CELL], double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int prefix = 0;
    while (fabs(value) >= 999.5 && prefix < SAMBA_COUNT(prefixes) - 1) {
        value /= 1000;
        prefix++;
    }
    snprintf(buffer, SAMBA_CELL,
             prefix == 0   ? "%.0f %s%s"
             : value < 10  ? "%.2f %s%s"
             : value < 100 ? "%.1f %s%s"
                           : "%.0f %s%s",
             value, prefixes[prefix], unit);
    return buffer;
}

char *samba_text_ms(char buffer[SAMBA_CELL], double ms)
{
    snprintf(buffer, SAMBA_CELL, ms < 10 ? "%.3f ms" : ms < 100 ? "%.2f ms" : "%.1f ms", ms);
    return buffer;
}

void samba_table_init(samba_table *table, samba_context *context, const char *align)
{
    *table = (samba_table){.align = align};
    samba_text_init(&table->text, context);
}

void samba_table_row(samba_table *table, const char *format, ...)
{
    char row[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row, sizeof row, format, arguments);
    va_end(arguments);
    size_t columns = strlen(table->align);
    const char *cell = row;
    for (size_t i = 0; i < columns; i++) {
        size_t length = strcspn(cell, "\t");
        samba_text_add(&table->text, "%.*s%c", (int)length, cell, '\0');
        cell += length + (cell[length] == '\t');
    }
    table->rows++;
}

samba_status samba_table_print(samba_table *table, FILE *file, const char *indent)
{
    enum { MAX_COLUMNS = 16 };
    int columns = (int)strlen(table->align), widths[MAX_COLUMNS] = {0};
    samba_status status = table->text.status;
    const char *cell = table->text.data;
    for (int i = 0; status == SAMBA_OK && i < table->rows * columns; i++, cell += strlen(cell) + 1)
        if ((int)strlen(cell) > widths[i % columns])
            widths[i % columns] = (int)strlen(cell);
    cell = table->text.data;
    for (int row = 0; status == SAMBA_OK && row < table->rows; row++) {
        fputs(indent, file);
        int owed = 0; /* spaces not yet printed: none at a line's end */
        for (int i = 0; i < columns; i++, cell += strlen(cell) + 1) {
            int length = (int)strlen(cell), room = widths[i] - length;
            if (length && table->align[i] == 'r')
                fprintf(file, "%*s%s", owed + room, "", cell);
            else if (length)
                fprintf(file, "%*s%s", owed, "", cell);
            owed = !length ? owed + widths[i] : table->align[i] == 'r' ? 0 : room;
            owed += 2;
        }
        fputc('\n', file);
    }
    samba_text_clear(&table->text);
    return status;
}

json_t *samba_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *samba_json_shape(int rank, const int64_t *shape)
{
    json_t *list = json_array();
    for (int i = 0; i < rank; i++)
        json_array_append_new(list, json_integer(shape[i]));
    return list;
}

samba_status samba_json_print(samba_context *context, json_t *object, FILE *file)
{
    if (!object)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the JSON report");
    int failed = json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (failed || fputc('\n', file) == EOF)
        return samba_fail(context, SAMBA_ERROR_FILE, "the JSON report could not be written: %s", strerror(errno));
    return SAMBA_OK;
}

samba_status samba_flush_output(samba_context *context)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return samba_fail(context, SAMBA_ERROR_FILE, "standard output could not be written: %s", strerror(errno));
    return SAMBA_OK;
}
