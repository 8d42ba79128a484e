// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
)

// mutantsEnv makes TestMutants run.
const mutantsEnv = "DPTEST_MUTANTS"

// mutants are the flaws of filter.
func mutants() []string {
	return []string{
		"everything is allowed", "everything is denied", "IPv6 is allowed", "no verdict is Allow",
		"no packet can be judged",
		"Pass is Allow", "Pass in a profile is Allow", "Log is Allow",
		"ingress and egress are swapped", "endpoints that are down are up",
		"staged policies are enforced", "staged policies have an end", "profiles are ignored",
		"the end of a tier passes", "the end of a tier denies",
		"the order of tiers is reversed", "the order of policies is reversed", "the order of rules is reversed",
		"sources are ignored", "destinations are ignored", "nets are ignored", "negated nets are ignored",
		"sets are ignored", "negated sets are ignored", "only the first set is used",
		"protocols are ignored", "negated protocols are ignored", "IP versions are ignored",
		"ICMP types are ignored", "negated ICMP types are ignored", "ICMP codes are ignored",
		"code points are ignored", "negated code points are ignored",
		"ports are ignored", "negated ports are ignored", "ranges lack their end", "ranges have a port too many",
		"named ports are any port", "named ports are of any address", "named ports match nothing",
		"members stay in sets", "changes of policies are ignored",
	}
}

// filterHarness opens a filter with a flaw.
func filterHarness(t *testing.T, flaw string) conformance.Harness {
	h := harness(t)
	var last *filter
	open := h.Open
	h.Open = func(t *testing.T) dataplane.Dataplane {
		last = newFilter(open(t).(memory), flaw)
		return last
	}
	h.Judge = func(p dptest.Packet) (bool, error) { return last.judge(p) }
	return h
}

func TestRunOnFilter(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness { return filterHarness(t, "") })
}

// TestMutants is for TestRunFindsMutants: by itself it does nothing.
func TestMutants(t *testing.T) {
	if os.Getenv(mutantsEnv) == "" {
		return
	}
	for _, flaw := range mutants() {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			conformance.RunJudge(t, func(t *testing.T) conformance.Harness {
				return filterHarness(t, flaw)
			})
		})
	}
}

// Every mutant fails in the cases and in random worlds.
func TestRunFindsMutants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutants$")
	cmd.Env = append(os.Environ(), mutantsEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	failed := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if _, name, ok := strings.Cut(line, "--- FAIL: TestMutants/"); ok {
			name, _, _ = strings.Cut(name, " ")
			if parts := strings.Split(name, "/"); len(parts) > 2 {
				check := parts[0] + "/" + parts[1]
				failed[check] = append(failed[check], parts[2])
			}
		}
	}
	var survivors []string
	for _, flaw := range mutants() {
		name := strings.ReplaceAll(flaw, " ", "_")
		cases, worlds := failed[name+"/judge_cases"], failed[name+"/judge_worlds"]
		t.Logf("%s: %d cases, first %v; world %v", flaw, len(cases), cases[:min(len(cases), 1)], worlds)
		// The graph makes no rule with several sets.
		if len(cases) == 0 || len(worlds) == 0 && flaw != "only the first set is used" {
			survivors = append(survivors, flaw)
		}
	}
	require.Empty(t, survivors)
}
