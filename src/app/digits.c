/* SPDX-License-Identifier: Apache-2.0
 *
 * Handwritten digits as samples. A folder holds either one pair of IDX files, whose last fifth is for testing, or MNIST's two
 * pairs; each file may be gzip-compressed. Pixels are normalised once here, so a batch is only a copy. */
#include "app/app.h"
#include <sambaflow/data.h>

#include <string.h>
#include <unistd.h>

typedef struct digit_files {
    const char *images, *labels;
} digit_files;
static const digit_files mnist_train = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
static const digit_files mnist_test = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
static const digit_files one_pair = {"digits-images-idx3-ubyte", "digits-labels-idx1-ubyte"};
enum { PATH_SIZE = 4096 };
#define MNIST_MEAN 0.1307
#define MNIST_DEVIATION 0.3081

/* folder/name or folder/name.gz, whichever is there; false when neither is */
static bool find_file(const char *folder, const char *name, char path[PATH_SIZE])
{
    static const char *const endings[] = {"", ".gz"};
    for (int i = 0; i < SAMBA_COUNT(endings); i++) {
        int length = snprintf(path, PATH_SIZE, "%s/%s%s", folder, name, endings[i]);
        if (length < PATH_SIZE && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static bool has_pair(const char *folder, const digit_files *files)
{
    char path[PATH_SIZE];
    return find_file(folder, files->images, path) && find_file(folder, files->labels, path);
}

typedef struct pair {
    char images_path[PATH_SIZE], labels_path[PATH_SIZE];
    samba_tensor *images, *labels;
    int64_t count;
} pair;

static samba_status read_file(samba_context *context, const char *folder, const char *name, int rank, char path[PATH_SIZE],
                              samba_tensor **tensor)
{
    find_file(folder, name, path);
    SAMBA_TRY(samba_idx_read(context, path, tensor));
    if (samba_tensor_dtype(*tensor) != SAMBA_UINT8 || samba_tensor_rank(*tensor) != rank)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "%s: expected an IDX file of unsigned bytes with %d dims, found %s with %d", path, rank,
                          samba_dtype_name(samba_tensor_dtype(*tensor)), samba_tensor_rank(*tensor));
    return SAMBA_OK;
}

static void close_pair(pair *p)
{
    samba_tensor_free(p->images);
    samba_tensor_free(p->labels);
    *p = (pair){0};
}

static samba_status open_pair(samba_context *context, const char *folder, const digit_files *files, pair *p)
{
    SAMBA_TRY(read_file(context, folder, files->images, 3, p->images_path, &p->images));
    SAMBA_TRY(read_file(context, folder, files->labels, 1, p->labels_path, &p->labels));
    p->count = samba_tensor_shape(p->images)[0];
    if (samba_tensor_shape(p->labels)[0] != p->count)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s has %lld labels but %s has %lld images: they must be as many",
                          p->labels_path, (long long)samba_tensor_shape(p->labels)[0], p->images_path, (long long)p->count);
    return SAMBA_OK;
}

/* Writes normalised pixels and labels of one pair from sample `first` on; a pair that was not opened has none. */
static samba_status copy_pair(samba_context *context, const pair *p, int64_t first, int64_t pixels, int64_t classes, float *image,
                              int64_t *label)
{
    if (!p->images)
        return SAMBA_OK;
    const int64_t *shape = samba_tensor_shape(p->images);
    if (shape[1] * shape[2] != pixels)
        return samba_fail(context, SAMBA_ERROR_SHAPE,
                          "%s has images of %lld x %lld = %lld pixels but the model's input 'image' has %lld values a sample",
                          p->images_path, (long long)shape[1], (long long)shape[2], (long long)(shape[1] * shape[2]),
                          (long long)pixels);
    const uint8_t *from = samba_tensor_data(p->images), *labels = samba_tensor_data(p->labels);
    float values[256];
    for (int i = 0; i < 256; i++)
        values[i] = (float)((i / 255.0 - MNIST_MEAN) / MNIST_DEVIATION);
    image += first * pixels;
    for (int64_t i = 0; i < p->count * pixels; i++)
        image[i] = values[from[i]];
    for (int64_t i = 0; i < p->count; i++) {
        if (labels[i] >= classes)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "%s: label %d of sample %lld is not among the model's %lld classes (0 .. %lld)", p->labels_path,
                              labels[i], (long long)i, (long long)classes, (long long)classes - 1);
        label[first + i] = labels[i];
    }
    return SAMBA_OK;
}

static samba_status new_samples(samba_context *context, const samba_app_input *input, int64_t count, samba_tensor **tensor)
{
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape);
    shape[0] = count;
    return samba_tensor_new(context, input->name, input->dtype, input->rank, shape, tensor);
}

static samba_status prepare(samba_context *context, const samba_app_input *inputs, const pair *train, const pair *test,
                            samba_app_data *data)
{
    int64_t count = train->count + test->count, pixels = 1;
    for (int i = 1; i < inputs[0].rank; i++)
        pixels *= inputs[0].shape[i];
    for (int i = 0; i < 2; i++) {
        SAMBA_TRY(new_samples(context, &inputs[i], count, &data->tensors[i]));
        data->tensor_count++;
    }
    float *image = samba_tensor_data(data->tensors[0]);
    int64_t *label = samba_tensor_data(data->tensors[1]);
    SAMBA_TRY(copy_pair(context, train, 0, pixels, inputs[1].classes, image, label));
    SAMBA_TRY(copy_pair(context, test, train->count, pixels, inputs[1].classes, image, label));
    data->test_count = test->images ? test->count : count / 5;
    data->train_count = count - data->test_count;
    if (data->train_count == 0 || data->test_count == 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s has %lld samples: too few to train and to test", train->images_path,
                          (long long)count);
    return SAMBA_OK;
}

samba_status samba_app_digits(samba_context *context, const char *folder, int input_count, const samba_app_input *inputs,
                              samba_app_data *data)
{
    *data = (samba_app_data){0};
    if (input_count != 2 || strcmp(inputs[0].name, "image") != 0 || inputs[0].dtype != SAMBA_FLOAT32 ||
        strcmp(inputs[1].name, "label") != 0 || inputs[1].dtype != SAMBA_INT64)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "digits feed the inputs 'image' (float32) and 'label' (int64), in this order");
    bool mnist = has_pair(folder, &mnist_train) && has_pair(folder, &mnist_test);
    if (!mnist && !has_pair(folder, &one_pair))
        return samba_fail(context, SAMBA_ERROR_FILE,
                          "no digits in '%s': expected %s and %s, or MNIST's four files %s ..., each with or without .gz; --data "
                          "FOLDER says where they are",
                          folder, one_pair.images, one_pair.labels, mnist_train.images);
    pair train = {0}, test = {0};
    samba_status status = open_pair(context, folder, mnist ? &mnist_train : &one_pair, &train);
    if (status == SAMBA_OK && mnist)
        status = open_pair(context, folder, &mnist_test, &test);
    if (status == SAMBA_OK)
        status = prepare(context, inputs, &train, &test, data);
    close_pair(&train);
    close_pair(&test);
    if (status != SAMBA_OK)
        samba_app_data_free(data);
    return status;
}

static bool is_folder(const char *path) { return access(path, X_OK) == 0; }

samba_status samba_app_data_folder(samba_context *context, const char *given, samba_text *folder)
{
    static const char here[] = "examples/data";
    char program[2048];
    samba_text_init(folder, context);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (given || is_folder(here) || length <= 0) {
        samba_text_add(folder, "%s", given ? given : here);
        return folder->status;
    }
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    samba_text_add(folder, "%s/../../%s", program, here);
    return folder->status;
}
