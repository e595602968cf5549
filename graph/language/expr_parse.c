/* SPDX-License-Identifier: Apache-2.0 */
/* Parses expressions, by recursive descent over the levels of operators. */
#include "graph/language/expr_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_TERMS = 1000 };

/* -- Words ------------------------------------------------------------------------------------- */

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_NAME, TOKEN_CONFIG, TOKEN_SIGN };

struct token {
    enum token_kind kind;
    const char *start;
    int length;
};

struct parser {
    const char *text;
    struct token token; /* the next one */
    struct hd_source_location location;
    const struct hd_expr_names *names;
    struct hd_diag *diag;
    struct hd_expr *expr;
    int depth;
    bool wrong; /* a name was unknown; parsing goes on to find others */
};

static struct hd_source_location location_of(const struct parser *p, const char *place)
{
    struct hd_source_location location = p->location;
    for (const char *c = p->text; c < place; c++)
        location.column += ((unsigned char)*c & 0xC0) != 0x80;
    return location;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Returns the end of words joined by single dots. */
static const char *skip_path(const char *c)
{
    while (is_word(*c) || (*c == '.' && is_word(c[1])))
        c++;
    return c;
}

static const char *skip_digits(const char *c)
{
    while (isdigit((unsigned char)*c))
        c++;
    return c;
}

static const char *skip_number(const char *c)
{
    c = skip_digits(c);
    if (*c == '.')
        c = skip_digits(c + 1);
    if (*c == 'e' || *c == 'E') {
        const char *exponent = c + 1 + (c[1] == '-' || c[1] == '+');
        if (isdigit((unsigned char)*exponent))
            c = skip_digits(exponent);
    }
    return c;
}

static const char *skip_sign(const char *c)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "&&", "||"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (c[0] == pairs[i][0] && c[1] == pairs[i][1])
            return c + 2;
    do
        c++; /* the whole of a character, so that messages can quote it */
    while (((unsigned char)*c & 0xC0) == 0x80);
    return c;
}

static void advance(struct parser *p)
{
    const char *start = p->token.start + p->token.length, *end;
    while (isspace((unsigned char)*start))
        start++;
    enum token_kind kind = TOKEN_SIGN;
    if (!*start) {
        kind = TOKEN_END;
        end = start;
    } else if (isdigit((unsigned char)*start) ||
               (*start == '.' && isdigit((unsigned char)start[1]))) {
        kind = TOKEN_NUMBER;
        end = skip_number(start);
    } else if (*start == '$' && is_word(start[1])) {
        kind = TOKEN_CONFIG;
        end = skip_path(start + 1);
    } else if (is_word(*start)) {
        kind = TOKEN_NAME;
        end = skip_path(start);
    } else {
        end = skip_sign(start);
    }
    p->token = (struct token){kind, start, (int)(end - start)};
}

static bool is_token(const struct parser *p, const char *text)
{
    return (p->token.kind == TOKEN_NAME || p->token.kind == TOKEN_SIGN) &&
           (size_t)p->token.length == strlen(text) && !memcmp(p->token.start, text, strlen(text));
}

static bool accept(struct parser *p, const char *text)
{
    bool found = is_token(p, text);
    if (found)
        advance(p);
    return found;
}

/* Returns a hint for an operator that C or Python writers try, or "". */
static const char *spelling(const struct parser *p)
{
    static const char *const spellings[][2] = {
        {"&&", "; it is spelled 'and'"}, {"||", "; it is spelled 'or'"},
        {"!", "; it is spelled 'not'"},  {"=", "; equality is '=='"},
        {"&", "; it is spelled 'and'"},  {"|", "; it is spelled 'or'"},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (is_token(p, spellings[i][0]))
            return spellings[i][1];
    return "";
}

static int reject(const struct parser *p, const char *expected)
{
    struct hd_source_location location = location_of(p, p->token.start);
    if (p->token.kind == TOKEN_END)
        return hd_diag_add_error(p->diag, location, "expected %s, but the expression ends",
                                 expected);
    int length = p->token.length < 60 ? p->token.length : 60;
    return hd_diag_add_error(p->diag, location, "expected %s, found '%.*s'%s", expected, length,
                             p->token.start, spelling(p));
}

/* -- Terms ------------------------------------------------------------------------------------- */

/* Adds a term, whose mistakes are reported at `place`. */
static int add(struct parser *p, const char *place, struct term term, int *term_p)
{
    struct hd_expr *expr = p->expr;
    if (expr->count >= MAX_TERMS)
        return hd_diag_add_error(p->diag, location_of(p, place),
                                 "the expression has more than %d operands and operators",
                                 MAX_TERMS);
    void *list = expr->terms;
    int status = hd_grow(&list, &expr->capacity, expr->count + 1, sizeof term);
    expr->terms = list;
    HD_TRY(status);
    expr->terms[expr->count] = term;
    *term_p = (int)expr->count++;
    return HD_OK;
}

static int add_number(struct parser *p, const char *place, double number, int key, int *term_p)
{
    if (!isfinite(number))
        return hd_diag_add_error(p->diag, location_of(p, place),
                                 "a constant that is not a finite number");
    return add(p, place, (struct term){.op = OP_NUMBER, .number = number, .key = key}, term_p);
}

static int add_slot(struct parser *p, const char *place, int slot, int *term_p)
{
    struct hd_expr *expr = p->expr;
    int64_t i = 0;
    while (i < expr->slot_count && expr->slots[i] != slot)
        i++;
    if (i == expr->slot_count) {
        void *list = expr->slots;
        int status = hd_grow(&list, &expr->slot_capacity, i + 1, sizeof slot);
        expr->slots = list;
        HD_TRY(status);
        expr->slots[expr->slot_count++] = slot;
    }
    return add(p, place, (struct term){.op = OP_SLOT, .slot = slot}, term_p);
}

/* Adds an operation, or its result, with its first key, when its operands are numbers. */
static int add_operation(struct parser *p, const char *place, enum op op, const int operands[2],
                         int *term_p)
{
    const struct term *terms = p->expr->terms;
    struct term term = {.op = op};
    struct result values[2] = {{0}};
    bool constant = true;
    int key = NO_KEY;
    for (int i = 0; i < hd_expr_ops[op].operands; i++) {
        const struct term *operand = &terms[operands[i]];
        constant = constant && operand->op == OP_NUMBER;
        if (constant && key == NO_KEY)
            key = operand->key;
        values[i] = make_result(operand->number);
        term.operands[i] = operands[i];
    }
    if (op == OP_DIV && terms[operands[1]].op == OP_NUMBER && values[1].number == 0)
        return hd_diag_add_error(p->diag, location_of(p, place), "a division by zero");
    if (constant)
        return add_number(p, place, hd_expr_compute(op, values[0], values[1]).number, key, term_p);
    return add(p, place, term, term_p);
}

/* -- Grammar ----------------------------------------------------------------------------------- */

static int parse_level(struct parser *p, enum level level, int *term_p);

/* Parses a whole expression inside another. */
static int parse_inner(struct parser *p, enum level level, int *term_p)
{
    if (p->depth >= MAX_DEPTH)
        return hd_diag_add_error(p->diag, location_of(p, p->token.start),
                                 "an expression nested deeper than %d levels", MAX_DEPTH);
    p->depth++;
    int status = parse_level(p, level, term_p);
    p->depth--;
    return status;
}

static int reject_name(struct parser *p, struct token token, const char *what, const char *nearest)
{
    struct hd_source_location location = location_of(p, token.start);
    int length = token.length < 120 ? token.length : 120;
    p->wrong = true;
    if (nearest)
        return hd_diag_add_error(p->diag, location, "unknown %s '%.*s' (did you mean '%s'?)", what,
                                 length, token.start, nearest);
    return hd_diag_add_error(p->diag, location, "unknown %s '%.*s'", what, length, token.start);
}

/* Takes over the name of a key and gives its index. */
static int add_key(struct parser *p, char *name, int *key_p)
{
    struct hd_expr *expr = p->expr;
    void *list = expr->keys;
    const int status = hd_grow(&list, &expr->key_capacity, expr->key_count + 1, sizeof(char *));
    expr->keys = list;
    if (status != HD_OK) {
        hd_free(name);
        return status;
    }
    *key_p = (int)expr->key_count;
    expr->keys[expr->key_count++] = name;
    return HD_OK;
}

static int parse_config(struct parser *p, int *term_p)
{
    struct token token = p->token;
    const char *nearest = NULL;
    double value = 1; /* an unknown one does no harm as a divisor */
    int key;
    char *path = hd_format("%.*s", token.length - 1, token.start + 1);
    if (!path)
        return HD_ERR_NOMEM;
    advance(p);
    if (!p->names->config(p->names->arg, path, &value, &nearest))
        reject_name(p, token, "number of the configuration", nearest);
    HD_TRY(add_key(p, path, &key));
    return add_number(p, token.start, value, key, term_p);
}

static int parse_slot(struct parser *p, struct token token, int *term_p)
{
    const char *nearest = NULL;
    char *name = hd_format("%.*s", token.length, token.start);
    if (!name)
        return HD_ERR_NOMEM;
    int slot = p->names->slot(p->names->arg, name, &nearest);
    if (slot < 0)
        reject_name(p, token, "name", nearest);
    hd_free(name);
    return add_slot(p, token.start, slot, term_p);
}

static int parse_call(struct parser *p, struct token token, int *term_p)
{
    static const char *const names[] = {"ceil", "floor", "min", "max"};
    char name[64] = "";
    if (token.length < (int)sizeof name)
        memcpy(name, token.start, (size_t)token.length);
    enum op op = OP_CEIL;
    while (op <= OP_MAX && strcmp(hd_expr_ops[op].text, name))
        op++;
    if (op > OP_MAX) {
        const char *nearest = hd_find_nearest_name(name, names, 4);
        return reject_name(p, token, nearest ? "function" : "function (not ceil, floor, min, max)",
                           nearest);
    }
    int operands[2] = {0};
    for (int i = 0; i < hd_expr_ops[op].operands; i++) {
        if (i > 0 && !accept(p, ","))
            return reject(p, "',' and a second argument");
        HD_TRY(parse_inner(p, LEVEL_OR, &operands[i]));
    }
    if (!accept(p, ")"))
        return reject(p, "')' after the arguments");
    return add_operation(p, token.start, op, operands, term_p);
}

static bool is_keyword(const struct parser *p)
{
    return is_token(p, "and") || is_token(p, "or") || is_token(p, "not");
}

static int parse_atom(struct parser *p, int *term_p)
{
    struct token token = p->token;
    if (token.kind == TOKEN_NUMBER) {
        advance(p);
        return add_number(p, token.start, strtod(token.start, NULL), NO_KEY, term_p);
    }
    if (token.kind == TOKEN_CONFIG)
        return parse_config(p, term_p);
    if (token.kind == TOKEN_NAME && !is_keyword(p)) {
        advance(p);
        return accept(p, "(") ? parse_call(p, token, term_p) : parse_slot(p, token, term_p);
    }
    if (!accept(p, "("))
        return reject(p, "a number, a name or '('");
    HD_TRY(parse_inner(p, LEVEL_OR, term_p));
    return accept(p, ")") ? HD_OK : reject(p, "')'");
}

static int parse_prefix(struct parser *p, enum op op, int *term_p)
{
    const char *place = p->token.start;
    int operands[2] = {0};
    advance(p);
    HD_TRY(parse_inner(p, hd_expr_ops[op].level, &operands[0]));
    return add_operation(p, place, op, operands, term_p);
}

/* Finds the next operator if it comes between two operands and binds as tightly as `level`. */
static bool find_operator(const struct parser *p, enum level level, enum op *op_p)
{
    for (enum op op = OP_OR; op <= OP_DIV; op++)
        if (hd_expr_ops[op].operands == 2 && hd_expr_ops[op].level == level &&
            is_token(p, hd_expr_ops[op].text)) {
            *op_p = op;
            return true;
        }
    return false;
}

static int parse_level(struct parser *p, enum level level, int *term_p)
{
    enum op op;
    int operands[2];
    if (level == LEVEL_NOT && is_token(p, "not"))
        return parse_prefix(p, OP_NOT, term_p);
    if (level == LEVEL_UNARY && is_token(p, "-"))
        return parse_prefix(p, OP_NEGATE, term_p);
    if (level == LEVEL_ATOM)
        return parse_atom(p, term_p);
    HD_TRY(parse_level(p, level + 1, &operands[0]));
    while (find_operator(p, level, &op)) {
        const char *place = p->token.start;
        advance(p);
        HD_TRY(parse_level(p, level + 1, &operands[1]));
        HD_TRY(add_operation(p, place, op, operands, &operands[0]));
        if (level == LEVEL_COMPARE && find_operator(p, level, &op))
            return reject(p, "'and' or 'or' between comparisons");
    }
    *term_p = operands[0];
    return HD_OK;
}

static int parse_whole(struct parser *p)
{
    advance(p);
    HD_TRY(parse_level(p, LEVEL_OR, &p->expr->root));
    if (p->token.kind != TOKEN_END)
        return reject(p, "an operator");
    return p->wrong ? HD_ERR_INPUT : HD_OK;
}

int hd_expr_parse(const char *text, struct hd_source_location location,
                  const struct hd_expr_names *names, struct hd_diag *diag, struct hd_expr **expr_p)
{
    struct hd_expr *expr = hd_alloc(1, sizeof *expr);
    if (!expr)
        return HD_ERR_NOMEM;
    struct parser p = {.text = text,
                       .token = {.start = text},
                       .location = location,
                       .names = names,
                       .diag = diag,
                       .expr = expr};
    int status = parse_whole(&p);
    if (status == HD_OK)
        *expr_p = expr;
    else
        hd_expr_destroy(expr);
    return status;
}
