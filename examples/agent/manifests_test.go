// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodPods = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web, labels: {app: web}}
spec: {nodeName: n, containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: six}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: "2001:db8::6"}]}
`

const goodPolicy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec: {podSelector: {}, ingress: [{ports: [{port: http}]}]}
`

// badManifests returns a row for each kind of invalid document.
func badManifests() []struct{ name, doc, object, want string } {
	const calico = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: bad}\nspec: "
	return []struct{ name, doc, object, want string }{
		{"unknown field", calico + "{selektor: all()}", "GlobalNetworkPolicy bad", "spec.selektor"},
		{"unknown kind", "apiVersion: v1\nkind: Widget\nmetadata: {name: bad}", "Widget bad", "kind"},
		{"unsupported field", calico +
			"{ingress: [{action: Allow, http: {methods: [GET]}}]}", "GlobalNetworkPolicy bad", "spec.ingress[0].http"},
		{"selector", calico + "{selector: \"app == \"}", "GlobalNetworkPolicy bad", "spec.selector"},
		{
			"CIDR", calico + "{ingress: [{action: Allow, source: {nets: [10.0.0.0/33]}}]}", "GlobalNetworkPolicy bad",
			"spec.ingress[0].source.nets[0]",
		},
		{
			"port", calico + "{ingress: [{action: Allow, protocol: TCP, destination: {ports: [65536]}}]}",
			"GlobalNetworkPolicy bad", "spec.ingress[0].destination.ports[0]",
		},
		{"order", calico + "{order: first}", "GlobalNetworkPolicy bad", "spec.order"},
		{"action", calico + "{egress: [{action: allow}]}", "GlobalNetworkPolicy bad", "spec.egress[0].action"},
		{"address", "apiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: bad}\nspec: {nodeName: n}\n" +
			"status: {podIPs: [{ip: 10.0.0}]}", "Pod shop/bad", "status.podIPs[0].ip"},
		{"syntax", "apiVersion: v1\nkind: [Pod", "", "line 1: did not find"},
		{"not UTF-8", "kind: \xff", "", "UTF-8"},
	}
}

// An error names the file, the object and the field. All other objects are used, and so is a policy
// with an invalid rule (S167).
func TestBadManifests(t *testing.T) {
	good := folderOf(t, map[string]string{"a.yaml": goodPods, "b.yaml": goodPolicy})
	code, want, errs := call(t, "ruleset", "--manifests", good, "--node", "n")
	require.Zero(t, code, errs)
	for _, row := range badManifests() {
		t.Run(row.name, func(t *testing.T) {
			dir := folderOf(t, map[string]string{"a.yaml": goodPods, "b.yaml": goodPolicy, "bad.yaml": row.doc})
			code, out, errs := call(t, "ruleset", "--manifests", dir, "--node", "n")
			require.Equal(t, 1, code)
			inRule := strings.Contains(row.want, "gress[")
			require.Equal(t, !inRule, want == out)
			require.Contains(t, errs, "bad.yaml: ")
			require.Contains(t, errs, row.object)
			require.Contains(t, errs, row.want)
		})
	}
}
