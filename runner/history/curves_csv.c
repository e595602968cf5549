/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/history/curves.h"

#include <math.h>

static void write_row(const struct hd_table *table, const double *row, FILE *file)
{
    for (int c = 0; c < table->n_columns; c++) {
        const double value = row[HD_CURVES_FIRST + c];
        if (isnan(value))
            continue;
        fprintf(file, "%s,%.0f,", table->name, row[HD_CURVES_ITER]);
        if (!isnan(row[HD_CURVES_ENV_STEP]))
            fprintf(file, "%.0f", row[HD_CURVES_ENV_STEP]);
        fprintf(file, ",%.3f,%s,%.9g\n", row[HD_CURVES_WALL], table->columns[c], value);
    }
}

void hd_curves_write_csv(const struct hd_curves *curves, FILE *file)
{
    fprintf(file, "component,update,env_step,seconds,name,value\n");
    for (int t = 0; t < curves->n_tables; t++)
        for (int64_t i = 0; i < curves->tables[t].n_rows; i++)
            write_row(&curves->tables[t], curves->tables[t].rows[i], file);
}
