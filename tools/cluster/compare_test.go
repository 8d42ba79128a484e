// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiguresTable(t *testing.T) {
	f := newFigures([]implementation{{name: "a"}, {name: "b"}})
	for _, v := range []float64{3, 1, 2} {
		f.add("a", "first [ms]", v)
	}
	f.add("b", "connections a second", 12345.6)
	var out bytes.Buffer
	f.write(&out)
	require.Equal(t, `
| min / median | a | b |
|---|---|---|
| first [ms] | 1.00 / 2.00 | |
| connections a second | | 12346 / 12346 |
`, out.String())
}

func TestCompareArguments(t *testing.T) {
	repository := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(repository, "bin"), 0o755))
	for want, args := range map[string][]string{
		`compare: --policies "1,x" is not a list of numbers above 0`:                  {"--policies=1,x"},
		"compare: --pods, --rounds, --edits and --idle must be above 0":               {"--rounds=0"},
		`compare: no implementation "felix"; 'cluster compare --help' lists them`:     {"felix"},
		"compare: no cluster runs: machine control does not run: file does not exist": {"none"},
	} {
		err := runCompare(context.Background(), &cluster{repository: repository}, args)
		require.EqualError(t, err, want)
	}
}

func TestStatusOfOmittedPolicies(t *testing.T) {
	status := func(kind, state string) []byte {
		return []byte(`{"kubernetes": {"kinds": [{"kind": "` + kind + `", "state": "` + state + `"}]}}`)
	}
	reads, err := readsPolicies(status(networkPolicies, "synced"))
	require.NoError(t, err)
	require.True(t, reads)
	reads, err = readsPolicies(status(networkPolicies, "omitted"))
	require.NoError(t, err)
	require.False(t, reads)
	_, err = readsPolicies(status("pods", "synced"))
	require.ErrorContains(t, err, "no kind networkpolicies.networking.k8s.io")
}

// Only the last policy of the server allows the client, and the others have peers of their own.
func TestServerPolicies(t *testing.T) {
	policies := serverPolicies(1000)
	names := map[string]bool{}
	for _, p := range policies {
		names[p["metadata"].(object)["name"].(string)] = true
	}
	require.Len(t, names, 1000)
	require.Equal(t, serverPolicies(1)[0]["spec"], policies[999]["spec"])
	require.NotEqual(t, policies[0]["spec"], policies[256]["spec"])
}
