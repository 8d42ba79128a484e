// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuites(t *testing.T) {
	names := map[string]bool{}
	for _, s := range append(suites(), selections()...) {
		require.False(t, names[s.name], s.name)
		names[s.name] = true
		require.NotEmpty(t, s.title)
		c := &cluster{repository: "/repository", options: options{Nodes: 2}}
		require.NotContains(t, strings.Join(s.command(c, "/results", ""), " "), "expression")
		require.Contains(t, strings.Join(s.command(c, "/results", "expression"), " "), "expression", s.name)
	}
	for _, r := range excludedTests() {
		require.NotEmpty(t, r.test)
	}
}

func TestShortTestsMatchByName(t *testing.T) {
	expression := regexp.MustCompile(shortTests)
	const netpol = "[sig-network] Netpol NetworkPolicy between server and client should "
	for name, want := range map[string]bool{
		netpol + "support a 'default-deny-all' policy":                                             true,
		netpol + "support allow-all policy":                                                        false,
		"[sig-network] Services should allow pods to hairpin back to themselves through services":  true,
		"[sig-network] DNS should provide DNS for services [Conformance]":                          true,
		"[sig-network] DNS should provide DNS for the cluster [Conformance]":                       false,
		"[sig-network] [Feature:IPv6DualStack] should create pod, add ipv6 and ipv4 ip to pod ips": true,
		// It fails if the server is not ready at the first query.
		"[sig-network] [Feature:IPv6DualStack] should be able to reach pod on ipv4 and ipv6 ip":   false,
		"[sig-storage] Services should allow pods to hairpin back to themselves through services": false,
	} {
		require.Equal(t, want, expression.MatchString(name), name)
	}
}
