/* test_sha256.c: tests of base/sha256: the published examples, and equal hashes for pieces and
 * the whole. */
#include "base/sha256.h"

#include "support/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_digest(const uint8_t digest[SHA256_BYTES], const char *hex) {
    char text[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++) (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    ck_assert_str_eq(text, hex);
}

static const struct {
    const char *message, *digest;
} vectors[] = {
    /* NIST's examples for FIPS 180-4 */
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
     "mnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

START_TEST(sha256_vector) {
    uint8_t digest[SHA256_BYTES];
    cla_sha256_of(vectors[_i].message, strlen(vectors[_i].message), digest);
    expect_digest(digest, vectors[_i].digest);
}
END_TEST

START_TEST(sha256_million) {
    uint8_t digest[SHA256_BYTES];
    sha256_state state;
    cla_sha256_begin(&state);
    unsigned char letters[1000];
    memset(letters, 'a', sizeof letters);
    for (int i = 0; i < 1000; i++) cla_sha256_add(&state, letters, sizeof letters);
    cla_sha256_end(&state, digest);
    expect_digest(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* Every length around two block ends, cut in two at every place. A part of NULL and 0 adds
 * nothing. */
START_TEST(sha256_pieces) {
    unsigned char message[150];
    uint8_t whole[SHA256_BYTES], parts[SHA256_BYTES];
    for (size_t i = 0; i < sizeof message; i++) message[i] = (unsigned char)(i * 5 + 1);
    for (size_t count = 0; count <= sizeof message; count++) {
        cla_sha256_of(message, count, whole);
        for (size_t cut = 0; cut <= count; cut++) {
            sha256_state state;
            cla_sha256_begin(&state);
            cla_sha256_add(&state, message, cut);
            cla_sha256_add(&state, NULL, 0);
            cla_sha256_add(&state, message + cut, count - cut);
            cla_sha256_end(&state, parts);
            ck_assert_mem_eq(parts, whole, SHA256_BYTES);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sha256");
    TCase *cases = tcase_create("sha256");
    tcase_add_loop_test(cases, sha256_vector, 0, (int)(sizeof vectors / sizeof vectors[0]));
    tcase_add_test(cases, sha256_million);
    tcase_add_test(cases, sha256_pieces);
    suite_add_tcase(suite, cases);
    return run_suite(suite, CK_FORK_GETENV);
}
