/* Names in CmdStan files: arrays are whole and in Stan's order, or no arrays. */
#include "server/results/stan_names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The names as a file has them, with commas in between. */
static void arrange(const char *const *names, size_t count, char *out)
{
    size_t order[32];
    bool whole[32];
    cr_assert(stan_names_arrange(names, count, order, whole));
    for (size_t k = 0; k < count; k++) {
        if (k > 0)
            *out++ = ',';
        out += stan_name_write(names[order[k]], whole[k], out);
    }
    *out = '\0';
}

Test(stan_names, arrays_are_whole_and_count_their_first_index_fastest)
{
    static const struct {
        const char *names[13];
        const char *wanted;
    } cases[] = {
        {{"mu"}, "mu"},
        {{"theta[1]", "theta[2]", "theta[3]"}, "theta.1,theta.2,theta.3"},
        {{"theta[10]", "theta[2]", "theta[1]", "theta[3]", "theta[4]", "theta[5]", "theta[6]",
          "theta[7]", "theta[8]", "theta[9]"},
         "theta.1,theta.2,theta.3,theta.4,theta.5,theta.6,theta.7,theta.8,theta.9,theta.10"},
        {{"W[1,1]", "W[1,2]", "W[1,3]", "W[2,1]", "W[2,2]", "W[2,3]"},
         "W.1.1,W.2.1,W.1.2,W.2.2,W.1.3,W.2.3"},
        {{"A[1,1,1]", "A[1,1,2]", "A[1,2,1]", "A[1,2,2]"}, "A.1.1.1,A.1.2.1,A.1.1.2,A.1.2.2"},
        /* blocks that are mixed come one after the other */
        {{"b[2]", "a[1]", "s", "b[1]", "a[2]"}, "b.1,b.2,a.1,a.2,s"},
        /* a beginning of an array is an array */
        {{"theta[1]", "theta[2]"}, "theta.1,theta.2"},
        /* what is not whole */
        {{"theta[2]"}, "theta_2"},
        {{"theta[1]", "theta[3]"}, "theta_1,theta_3"},
        {{"theta[0]", "theta[1]"}, "theta_0,theta_1"},
        {{"W[1,1]", "W[2,2]", "mu", "v[1]"}, "W_1_1,W_2_2,mu,v.1"},
        {{"W[1,1]", "W[2,1]", "W[1,2]"}, "W_1_1,W_2_1,W_1_2"},
        {{"W[1,2]", "W[2,2]"}, "W_1_2,W_2_2"},
        /* the same name with and without indices is two things */
        {{"x[1]", "x", "x[1,1]"}, "x.1,x,x.1.1"},
        /* no indices at all */
        {{"x[", "y[]", "z[a]", "w[1", "v[1,]", "u[1]2", "q[-1]", "a b"},
         "x_,y_,z_a,w_1,v_1_,u_12,q__1,a_b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char got[300];
        size_t count = 0;
        while (cases[i].names[count] != NULL)
            count++;
        arrange(cases[i].names, count, got);
        cr_expect_str_eq(got, cases[i].wanted, "case %zu: %s", i, got);
    }
}

Test(stan_names, nothing_is_in_order)
{
    cr_expect(stan_names_arrange(NULL, 0, NULL, NULL));
}
