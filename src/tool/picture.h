/* Heatmaps of attention weights: a panel for each head, rows queries, columns keys, one colour scale for all
 * panels so that they can be compared. Leaves out reading the weights and choosing heads. Called by
 * heatmap.c. */
#ifndef CLATTN_TOOL_PICTURE_H
#define CLATTN_TOOL_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What is drawn. Everything is the caller's and is only read. */
typedef struct picture {
    const char *title;                /* UTF-8, one line */
    const float *weights;             /* weight (h, i, j) at head_numbers[h]*head_stride + i*row_stride + j */
    int64_t head_stride, row_stride;  /* elements */
    int heads, rows, columns;         /* each at least 1 */
    const int *head_numbers;          /* [heads], shown above the panels */
    const char *const *row_labels;    /* [rows] UTF-8, or NULL: numbers from 0 */
    const char *const *column_labels; /* [columns], or NULL */
} picture;

float picture_weight(const picture *p, int head, int row, int column);

/* The least and greatest finite weight in all panels; both 0 where none is finite. */
void picture_range(const picture *p, float *least, float *greatest);

/* Write a file, whole or not at all. False: too large, no memory, or the file cannot be written; error has
 * one line. picture_png also fails where the build has no libpng. A weight that is not finite is drawn grey.
 */
bool picture_png(const picture *p, const char *path, char *error, size_t error_size);
bool picture_svg(const picture *p, const char *path, char *error, size_t error_size);

/* Print with shade characters in at most 80 columns of UTF-8; where the keys do not fit, neighbouring ones
 * share a column that shows the greatest. The caller checks ferror(out). */
void picture_terminal(const picture *p, FILE *out);

#endif
