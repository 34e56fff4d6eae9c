/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyperparameters (argins): 8-byte numbers in device memory. The session keeps the value in force of each, since the device's may
 * differ for the length of a run: in a run that does not train, dropout rates and the flag "training" are 0 on the device.
 *
 * A name sets the argin of that name and all whose name ends in ".<name>": "lr" sets the learning rate of every optimizer, "p"
 * the rate of every dropout, "seed" its seed. Seeds that nobody gave are drawn anew for every forward run, from the session's
 * seed, the argin's number and the count of forward runs. They have at most 53 bits, so that a double holds them exactly.
 *
 * The number of replicas that train together, "replica_count", is no caller's: each run sets it.
 *
 * "p" is accepted without a dropout too, as programs give it to all their models. A warning says once that it has no effect. */
#include "plan/optimizers.h"
#include "runtime/runtime.h"

#include <math.h>
#include <string.h>

enum { ROLE_DROPOUT_RATE = 1, ROLE_DROPOUT_SEED = 2, ROLE_TRAINING = 3, ROLE_REPLICAS = SAMBA_ARGIN_REPLICAS };

static const char dropout_rate[] = "p"; /* of every dropout */

/* The part behind the last dot, or all of it. */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool matches(const char *argin, const char *name)
{
    size_t length = strlen(argin), wanted = strlen(name);
    return strcmp(argin, name) == 0 ||
           (length > wanted + 1 && argin[length - wanted - 1] == '.' && strcmp(argin + length - wanted, name) == 0);
}

static samba_status write_value(samba_session *session, int32_t index, double value)
{
    const samba_plan_argin *argin = &session->plan.argins[index];
    char bytes[8];
    int64_t integer = argin->dtype == SAMBA_INT64 ? (int64_t)value : 0;
    if (argin->dtype == SAMBA_INT64)
        memcpy(bytes, &integer, sizeof bytes);
    else
        memcpy(bytes, &value, sizeof bytes);
    return session->device->interface->write(session->device, samba_session_offset(session, argin->buffer), bytes, sizeof bytes);
}

static samba_status set_value(samba_session *session, int32_t index, double value)
{
    session->argins[index].value = value;
    return write_value(session, index, value);
}

samba_status samba_hyper_start(samba_session *session)
{
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        SAMBA_TRY(set_value(session, i, session->plan.argins[i].value));
    return SAMBA_OK;
}

/* Options that are compiled in: flags, which decide which operators a PEF has, and numbers that state begins with. */
static samba_status fail_compiled_in(const samba_session *session, const char *name)
{
#define OPERATORS "because it is compiled into the PEF: make the optimizer with the value you want, and compile again"
#define RUN NULL
#define COMPILE "because state began with it: make the optimizer with another value, and compile again"
    static const struct {
        const char *word, *instead; /* NULL: a run may change it where the PEF has it */
    } words[] = {
#define FLAG(name, option, help) {#name, OPERATORS},
#define HYPERPARAMETER(name, option, range, when, help) {#name, when},
#include "optimizers.def"
        {"maximize", OPERATORS},
        {"max_grad_norm", "because the PEF does not clip gradients: compile with an optimizer that has a max_grad_norm, which "
                          "runs may then change"},
        {"betas", "as it is two numbers: give beta1 and beta2"},
    };
    for (int i = 0; i < SAMBA_COUNT(words); i++)
        if (words[i].instead && strcmp(last_part(name), words[i].word) == 0)
            return samba_fail(session->context, SAMBA_ERROR_NAME, "hyperparameter \"%.128s\" cannot be changed by a run, %s",
                              name, words[i].instead);
    return SAMBA_OK;
}

/* Other words for hyperparameters, as other frameworks have them. */
static const char *meant_by(const char *name)
{
    static const char *const words[][2] = {{"learning_rate", "lr"},   {"learningrate", "lr"}, {"wd", "weight_decay"},
                                           {"decay", "weight_decay"}, {"epsilon", "eps"},     {"dropout", "p"},
                                           {"dropout_rate", "p"},     {"beta_1", "beta1"},    {"beta_2", "beta2"}};
    const char *meant = name;
    for (int i = 0; i < SAMBA_COUNT(words); i++)
        meant = strcmp(name, words[i][0]) == 0 ? words[i][1] : meant;
    return meant;
}

static bool is_nearest(const samba_session *session, int32_t index, const char *nearest)
{
    return nearest && matches(session->plan.argins[index].name, nearest);
}

static samba_status fail_unknown(const samba_session *session, const char *name)
{
    SAMBA_TRY(fail_compiled_in(session, name));
    if (session->plan.argin_count == 0)
        return samba_fail(session->context, SAMBA_ERROR_NAME, "there is no hyperparameter \"%.128s\": this %s has none", name,
                          session->source);
    for (int32_t i = 0; i < session->plan.argin_count; i++) {
        session->candidates[2 * i] = session->plan.argins[i].name;
        session->candidates[2 * i + 1] = last_part(session->plan.argins[i].name);
    }
    const char *nearest = samba_nearest(meant_by(name), session->candidates, 2 * session->plan.argin_count);
    samba_words words = {.used = 0}; /* which is cut where it is long */
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        if (is_nearest(session, i, nearest))
            samba_words_add(&words, session->plan.argins[i].name);
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        if (!is_nearest(session, i, nearest))
            samba_words_add(&words, session->plan.argins[i].name);
    return samba_fail(session->context, SAMBA_ERROR_NAME, "there is no hyperparameter \"%.128s\"%s%.128s%s; they are: %s", name,
                      nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "",
                      samba_words_text(&words));
}

/* What torch.optim refuses when an optimizer is made. */
static samba_status check_range(const samba_session *session, const samba_plan_argin *argin, const samba_hyperparameter *given)
{
    const char *name = last_part(argin->name);
    const samba_hyper_range range = strcmp(name, "max_grad_norm") == 0 ? SAMBA_RANGE_NONNEGATIVE : samba_range_of(name);
    if (argin->role != 0 || isinf(given->value) || samba_range_has(range, given->value))
        return SAMBA_OK;
    return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "hyperparameter \"%.128s\" = %g: \"%.128s\" is %s%s", given->name,
                      given->value, argin->name, samba_range_text(range),
                      strcmp(name, "lr") == 0 ? "; to go up the gradient compile with maximize" : "");
}

samba_status samba_check_hyper(const samba_session *session, const samba_hyperparameter *given)
{
    if (!given->name)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "a hyperparameter has no name");
    bool found = false;
    for (int32_t i = 0; i < session->plan.argin_count; i++) {
        const samba_plan_argin *argin = &session->plan.argins[i];
        if (!matches(argin->name, given->name))
            continue;
        found = true;
        /* infinity: no clipping */
        if (!isfinite(given->value) && !(given->value > 0 && strcmp(last_part(argin->name), "max_grad_norm") == 0))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "hyperparameter \"%.128s\" = %g: it must be a finite number", given->name, given->value);
        if (argin->dtype == SAMBA_INT64 && (given->value != trunc(given->value) || fabs(given->value) > 0x1p53))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "hyperparameter \"%.128s\" = %.17g: \"%.128s\" takes an integer of at most 53 bits", given->name,
                              given->value, argin->name);
        SAMBA_TRY(check_range(session, argin, given));
        if (argin->role == ROLE_DROPOUT_RATE && !(given->value >= 0 && given->value <= 1))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "hyperparameter \"%.128s\" = %.17g: the dropout rate \"%.128s\" must be in [0, 1]", given->name,
                              given->value, argin->name);
        if (argin->role == ROLE_REPLICAS)
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "hyperparameter \"%.128s\" is the number of replicas that train together, which a run finds: start "
                              "more processes instead",
                              given->name);
        if (argin->role == ROLE_TRAINING && given->value != 0 && given->value != 1)
            return samba_fail(
                session->context, SAMBA_ERROR_ARGUMENT,
                "hyperparameter \"%.128s\" = %.17g: \"%.128s\" is 1 in runs that train with the statistics of their batch, or 0",
                given->name, given->value, argin->name);
    }
    if (found)
        return SAMBA_OK;
    if (strcmp(given->name, dropout_rate) != 0)
        return fail_unknown(session, given->name);
    return given->value >= 0 && given->value <= 1
               ? SAMBA_OK
               : samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                            "hyperparameter \"%s\" = %.17g: a dropout rate must be in [0, 1]", dropout_rate, given->value);
}

samba_status samba_hyper_set(samba_session *session, const samba_hyperparameter *given)
{
    bool found = false;
    for (int32_t i = 0; i < session->plan.argin_count; i++) {
        if (!matches(session->plan.argins[i].name, given->name))
            continue;
        found = session->argins[i].given = true;
        SAMBA_TRY(set_value(session, i, given->value));
    }
    if (!found && session->unused_rate == SAMBA_WARNING_QUIET)
        session->unused_rate = SAMBA_WARNING_PENDING;
    return SAMBA_OK;
}

samba_status samba_hyper_restore(samba_session *session, int32_t index, double value, bool given)
{
    session->argins[index].given = given;
    return set_value(session, index, value);
}

static samba_status set_all(samba_session *session, int count, const samba_hyperparameter *values)
{
    if (count < 0 || (count > 0 && !values))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%d hyperparameters without values", count);
    for (int i = 0; i < count; i++)
        SAMBA_TRY(samba_check_hyper(session, &values[i]));
    for (int i = 0; i < count; i++)
        SAMBA_TRY(samba_hyper_set(session, &values[i]));
    return SAMBA_OK;
}

samba_status samba_session_set_hyperparameters(samba_session *session, int count, const samba_hyperparameter *values)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_set_hyperparameters"));
    return samba_session_leave(session, set_all(session, count, values));
}

samba_status samba_hyper_draw_seeds(samba_session *session)
{
    for (int32_t i = 0; i < session->plan.argin_count; i++) {
        if (session->plan.argins[i].role != ROLE_DROPOUT_SEED || session->argins[i].given)
            continue;
        const int64_t counter[3] = {i, session->forward_runs, samba_session_rank(session)};
        const size_t used = counter[2] > 0 ? 3 : 2; /* replica 0 draws what a session alone does */
        SAMBA_TRY(set_value(session, i, (double)(samba_hash(counter, used * sizeof *counter, session->seed) >> 11)));
    }
    return SAMBA_OK;
}

samba_status samba_session_reset_random(samba_session *session, uint64_t seed)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_reset_random"));
    session->seed = seed;
    session->forward_runs = 0;
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        if (session->plan.argins[i].role == ROLE_DROPOUT_SEED)
            session->argins[i].given = false;
    return samba_session_leave(session, SAMBA_OK);
}

samba_status samba_hyper_train(samba_session *session, bool on)
{
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        if (session->plan.argins[i].role == ROLE_DROPOUT_RATE || session->plan.argins[i].role == ROLE_TRAINING)
            SAMBA_TRY(write_value(session, i, on ? session->argins[i].value : 0));
    return SAMBA_OK;
}

samba_status samba_hyper_replicas(samba_session *session, int count)
{
    for (int32_t i = 0; i < session->plan.argin_count; i++)
        if (session->plan.argins[i].role == ROLE_REPLICAS && session->argins[i].value != count)
            SAMBA_TRY(set_value(session, i, count));
    return SAMBA_OK;
}

int samba_session_hyperparameter_count(const samba_session *session) { return session ? session->plan.argin_count : 0; }

samba_status samba_session_hyperparameter(const samba_session *session, int index, samba_hyperparameter *info)
{
    SAMBA_NEED(NULL, session);
    if (index < 0 || index >= session->plan.argin_count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no hyperparameter %d: the PEF has %d", index,
                          session->plan.argin_count);
    *info = (samba_hyperparameter){session->plan.argins[index].name, session->argins[index].value};
    return SAMBA_OK;
}
