// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy/verdict"
)

// shopPolicies are two documents of different authors.
const shopPolicies = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
    - from:
        - podSelector: {matchLabels: {app: cart}}
        - ipBlock: {cidr: 192.0.2.0/24}
      ports:
        - {port: 53, protocol: UDP}
        - port: http
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: guard}
spec:
  order: 1
  selector: app == "web"
  types: [Ingress]
  ingress:
    - action: Deny
      source: {nets: [198.51.100.0/24]}
`

// explain names the file, line, peer and port of the rule that decides, and of the rules that do
// not match.
func TestExplainNamesTheManifest(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": goodPods, "shop.yaml": shopPolicies})
	file := filepath.Join(dir, "shop.yaml")
	code, out, errs := call(t, "explain", "--manifests", dir, "192.0.2.7", "shop/web", "tcp/80")
	require.Zero(t, code, errs)
	require.Contains(t, out,
		"of Policy/shop/knp.default.web in tier default, "+file+":9: ingress[0].from[1], ports[1]\n")
	require.Contains(t, out, "rule 1 Deny ("+file+":22: ingress[0]): no: ")
	require.Contains(t, out, "rule 2 Allow ("+file+":8: ingress[0].from[0], ports[1]): no: ")
	require.Contains(t, out, "rule 4 Allow ("+file+":9: ingress[0].from[1], ports[1]): matches\n")
	code, out, errs = call(t, "explain", "--manifests", dir, "198.51.100.7", "shop/web", "tcp/80")
	require.Zero(t, code, errs)
	require.Contains(t, out, ": Deny: by rule ")
	require.Contains(t, out, " of Policy/guard in tier default, "+file+":22: ingress[0]\n")
}

// explain names the file and line of a policy without rules. In JSON, the place also has the
// object.
func TestExplainNamesTheManifestOfAPolicyWithoutRules(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	at := " (" + filepath.Join(dir, "deny.yaml") + ":1)\n"
	code, out, errs := call(t, "explain", "--manifests", dir, "2001:db8::7", "shop/six", "tcp/80")
	require.Zero(t, code, errs)
	require.Contains(t, out, ": nothing matches"+at)
	startAnAgent(t, dir)
	code, out, errs = call(t, "explain", "2001:db8::7", "shop/six", "tcp/80")
	require.Zero(t, code, errs)
	require.Contains(t, out, ": nothing matches"+at)
	code, out, errs = call(t, "explain", "-o", "json", "2001:db8::7", "shop/six", "tcp/80")
	require.Zero(t, code, errs)
	var got struct {
		PolicyOrigins map[string]struct {
			Line   int
			Object struct{ Kind, Namespace string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.PolicyOrigins, 1)
	for _, origin := range got.PolicyOrigins {
		require.Equal(t, 1, origin.Line)
		require.Equal(t, "NetworkPolicy shop", origin.Object.Kind+" "+origin.Object.Namespace)
	}
}

// A running agent finds the line of the rule in its manifests.
func TestExplainOfAgentNamesTheManifest(t *testing.T) {
	const six = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: six}
spec:
  podSelector: {}
  ingress:
    - ports: [{port: 80}, {port: 81}]
`
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "six.yaml": six})
	startAnAgent(t, dir)
	code, out, errs := call(t, "explain", "2001:db8::7", "shop/six", "tcp/80")
	require.Zero(t, code, errs)
	file := filepath.Join(dir, "six.yaml")
	require.Contains(t, out, "in tier default, "+file+":7: ingress[0].ports[0]\n")
	code, out, errs = call(t, "explain", "2001:db8::7", "shop/six", "tcp/82")
	require.Zero(t, code, errs)
	require.Contains(t, out, "rule 1 Allow ("+file+":7: ingress[0].ports[0], ports[1]): no: destination.ports: ")
}

// The JSON form has the places of the rules in the explanation, by rule ID, and no other places.
func TestExplainJSONNamesTheManifest(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"pods.yaml": goodPods, "shop.yaml": shopPolicies, "z.yaml": strings.ReplaceAll(denyAll, "shop", "other"),
	})
	code, out, errs := call(t, "explain", "--manifests", dir, "-o", "json", "192.0.2.7", "shop/web", "udp/53")
	require.Zero(t, code, errs)
	var got struct {
		verdict.Explanation
		Origins map[string]struct {
			File, Field  string
			Line         int
			Peers, Ports []string
			Object       struct{ Kind, Namespace, Name string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Origins, 4, "one of guard, and three of web until one decides")
	at := got.Origins[got.Ingress.Decision.RuleID]
	require.Equal(t, filepath.Join(dir, "shop.yaml"), at.File)
	require.Equal(t, 9, at.Line)
	require.Equal(t, "spec.ingress[0]", at.Field)
	require.Equal(t, []string{"spec.ingress[0].from[1]"}, at.Peers)
	require.Equal(t, []string{"spec.ingress[0].ports[0]"}, at.Ports)
	require.Equal(t, "NetworkPolicy shop web", at.Object.Kind+" "+at.Object.Namespace+" "+at.Object.Name)
}
