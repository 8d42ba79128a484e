// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

const authored = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec:
  podSelector: {}
  ingress:
    - from:
        - podSelector: {matchLabels: {app: cart}}
        - ipBlock: {cidr: 192.0.2.0/24}
      ports:
        - port: 80
        - {port: 53, protocol: UDP}
    - ports:
        - port: 9090
    - from:
        - ipBlock: {cidr: 192.0.2.0/24}
        - ipBlock: {cidr: 10.0.0.0/8}
---
apiVersion: v1
kind: List
items:
  - apiVersion: projectcalico.org/v3
    kind: GlobalNetworkPolicy
    metadata: {name: guard}
    spec:
      egress:
        - {action: Allow}
        - action: Deny
`

// Rule receives the line of the first peer or port of each rule, in all documents of a file and in
// lists.
func TestRuleOrigins(t *testing.T) {
	found := map[string]string{}
	narrowed := ""
	reader := manifest.Reader{Rule: func(id string, at manifest.RuleOrigin) {
		found[id] = at.String()
		if strings.HasSuffix(found[id], "ingress[2].from[0], from[1]") {
			narrowed = at.Narrow(netip.MustParseAddr("10.1.1.1"), netip.Addr{}, 80).String()
		}
	}}
	resources, problems := reader.Decode("shop.yaml", []byte(authored))
	require.Empty(t, problems)
	var got []string
	for _, r := range resources {
		if p, ok := r.(*policy.Policy); ok {
			for _, id := range policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress) {
				got = append(got, found[id])
			}
			for _, id := range policy.RuleIDs(p.Key(), policy.Egress, p.Egress) {
				got = append(got, found[id])
			}
		}
	}
	require.Equal(t, []string{
		"shop.yaml:12: ingress[0].from[0], ports[0]", "shop.yaml:12: ingress[0].from[0], ports[1]",
		"shop.yaml:13: ingress[0].from[1], ports[0]", "shop.yaml:13: ingress[0].from[1], ports[1]",
		"shop.yaml:18: ingress[1].ports[0]", "shop.yaml:20: ingress[2].from[0], from[1]",
		"shop.yaml:31: egress[0]", "shop.yaml:32: egress[1]",
	}, got)
	require.Equal(t, "shop.yaml:21: ingress[2].from[1]", narrowed)
}

// Policy receives the first line of each policy, in all documents of a file and in lists.
func TestPolicyOrigins(t *testing.T) {
	found := map[string]string{}
	reader := manifest.Reader{Policy: func(key policy.Key, at manifest.PolicyOrigin) {
		found[key.String()] = at.Object.Kind + " " + at.String()
	}}
	_, problems := reader.Decode("shop.yaml", []byte(authored))
	require.Empty(t, problems)
	require.Equal(t, map[string]string{
		"Policy/shop/knp.default.web": "NetworkPolicy shop.yaml:5", "Policy/guard": "GlobalNetworkPolicy shop.yaml:26",
	}, found)
	_, problems = reader.Decode("", []byte("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {namespace: shop, name: deny}\nspec: {podSelector: {}}\n"))
	require.Empty(t, problems)
	require.Equal(t, "NetworkPolicy NetworkPolicy shop/deny", found["Policy/shop/knp.default.deny"])
}

// Without a file, the text of an origin has the object instead. A rule that cannot be read also has
// an origin.
func TestRuleOriginWithoutFile(t *testing.T) {
	var got []string
	reader := manifest.Reader{Rule: func(_ string, at manifest.RuleOrigin) { got = append(got, at.String()) }}
	_, problems := reader.Decode("", []byte("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {namespace: shop, name: web}\nspec: {podSelector: {}, ingress: [{from: [null]}]}\n"))
	require.Len(t, problems, 1)
	require.Equal(t, []string{"NetworkPolicy shop/web: ingress[0]"}, got)
}
