// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S167: status and explain show the rule in doubt, with the field that is not understood.
func TestStatusShowsClosedRules(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "odd.yaml": "apiVersion: projectcalico.org/v3\n" +
		"kind: GlobalNetworkPolicy\n" +
		"metadata: {name: odd}\nspec: {ingress: [{action: Deny, protocol: TCP, destination: {ports: [80, 99999]}}]}\n"})
	startAnAgent(t, dir)
	const field = "spec.ingress[0].destination.ports[1]: "
	code, out, errs := call(t, "status")
	require.Zero(t, code, errs)
	require.Contains(t, out, "in doubt    policy: in doubt: Policy/odd: "+field)
	code, out, errs = call(t, "status", "-o", "json")
	require.Zero(t, code, errs)
	require.Contains(t, out, `"doubts": [`)
	for _, args := range [][]string{
		{"explain", "2001:db8::7", "shop/six", "tcp/81"},
		{"explain", "--manifests", dir, "2001:db8::7", "shop/six", "tcp/81"},
	} {
		_, out, _ = call(t, args...)
		require.Contains(t, out, ": Deny\n")
		require.Contains(t, out, "rule 1 Deny (")
		require.Contains(t, out, "odd.yaml:4: ingress[0]) in doubt ("+field)
		require.Contains(t, out, "): matches everything\n")
	}
}
