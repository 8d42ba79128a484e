// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// One policy that is written once takes effect on all nodes: the demo tests that with packets.
func TestDemoEtcd(t *testing.T) {
	code, out, errs := demoCall(t, "--etcd")
	require.Zero(t, code, "%s\n%s", out, errs)
	require.Empty(t, errs)
	var before, after []string
	counts := regexp.MustCompile(`(?m)^   applied on (\d/3) after|^== (One)`)
	list := &before
	for _, m := range counts.FindAllStringSubmatch(out, -1) {
		if m[2] != "" {
			list = &after
			continue
		}
		*list = append(*list, m[1])
	}
	require.IsIncreasing(t, append([]string{""}, before...), out)
	require.IsIncreasing(t, append([]string{""}, after...), out)
	require.Equal(t, "3/3", before[len(before)-1], out)
	require.Equal(t, "0/3", after[0], out)
	require.Equal(t, "3/3", after[len(after)-1], out)
	flows := regexp.MustCompile(`(?m)^   n\d: (\d+) flows pass, (\d+) are blocked$`).FindAllStringSubmatch(out, -1)
	require.Len(t, flows, 6, out)
	for i, f := range flows {
		require.NotEqual(t, "0", f[1], out)
		require.Equal(t, i < 3, f[2] == "0", out)
	}
	require.Contains(t, out, "flows measured, 0 differ from policy")
}

func TestDemoEtcdRefusesOtherFlags(t *testing.T) {
	code, _, errs := call(t, "demo", "--etcd", "--ruleset")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--etcd cannot be combined with other flags")
}
