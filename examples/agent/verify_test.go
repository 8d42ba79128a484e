// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
)

// The agent compares kernel, table and policy, and the result has the form for people or programs.
func TestVerify(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	startAnAgent(t, dir)
	code, out, errs := call(t, "verify")
	require.Zero(t, code, "%s%s", out, errs)
	require.Empty(t, errs)
	require.Regexp(t, `^table wayleave in the kernel: equal \(\d+ chains, \d+ sets, \d+ elements\)\n`+
		`\d+ packets of 1 endpoints \(1 groups, \d+ kinds of addresses\): policy and table agree\n`, out)
	require.Contains(t, out, "\nnot proved: ")
	code, out, errs = call(t, "verify", "--json")
	require.Zero(t, code, errs)
	var v pipeline.Verified
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.True(t, v.Kernel.Equal())
	require.Positive(t, v.Policy.Packets)
}

// Without an agent, the table for manifests is proved.
func TestVerifyManifests(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	code, out, errs := call(t, "verify", "--manifests", dir, "--node", "n")
	require.Zero(t, code, "%s%s", out, errs)
	require.Contains(t, out, "table wayleave not compared with the kernel\n")
	require.Contains(t, out, "policy and table agree\n")
}

func TestVerifyFails(t *testing.T) {
	code, _, errs := call(t, "verify", "--socket", filepath.Join(t.TempDir(), "none.sock"))
	require.Equal(t, statusFailed, code)
	require.Contains(t, errs, "no agent is running there")
	code, _, errs = call(t, "verify", "--limit", "0")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--limit")
}
