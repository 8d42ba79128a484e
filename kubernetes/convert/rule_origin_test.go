// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	"go.yaml.in/yaml/v3"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// spec decodes the specification of an object.
func spec(t *testing.T, text string, into any) {
	t.Helper()
	var content any
	require.NoError(t, yaml.Unmarshal([]byte(text), &content))
	data, err := json.Marshal(content)
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(into))
}

// origins returns the origins of the rules of an object's policy, in order.
func origins(t *testing.T, object metav1.Object) (all []convert.RuleOrigin) {
	t.Helper()
	resources, _ := convert.Converter{}.Convert(object)
	require.Len(t, resources, 1)
	p := resources[0].(*policy.Policy)
	for _, d := range []struct {
		dir   policy.Type
		rules []policy.Rule
	}{{policy.Ingress, p.Ingress}, {policy.Egress, p.Egress}} {
		for _, id := range policy.RuleIDs(p.Key(), d.dir, d.rules) {
			o, ok := convert.Converter{}.RuleOrigins(object)[id]
			require.True(t, ok, "%s %s", d.dir, id)
			require.Equal(t, object.GetName(), o.Object.Name)
			require.Equal(t, object.GetUID(), o.Object.UID)
			all = append(all, at(o.Field, o.Peers, o.Ports))
		}
	}
	return all
}

// at returns an origin without its object.
func at(field string, peers, ports []string) convert.RuleOrigin {
	return convert.RuleOrigin{Field: field, Peers: peers, Ports: ports}
}

// RuleOrigins returns the peers and ports of a NetworkPolicy from which each rule was converted.
func TestRuleOriginNetworkPolicy(t *testing.T) {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	spec(t, `
podSelector: {}
ingress:
- from:
  - podSelector: {matchLabels: {app: a}}
  - ipBlock: {cidr: 10.0.0.0/8}
  - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
  - ipBlock: {cidr: 192.0.2.0/24}
  ports:
  - {port: 80}
  - {port: 53, protocol: UDP}
  - {port: 443}
- ports: [{port: 99999}]
egress:
- to: [{namespaceSelector: {}}]
- {}
`, &np.Spec)
	const first = "spec.ingress[0]"
	pods, blocks := []string{first + ".from[0]"}, []string{first + ".from[1]", first + ".from[3]"}
	except := []string{first + ".from[2]"}
	tcp, udp := []string{first + ".ports[0]", first + ".ports[2]"}, []string{first + ".ports[1]"}
	require.Equal(t, []convert.RuleOrigin{
		at(first, pods, tcp), at(first, pods, udp), at(first, blocks, tcp), at(first, blocks, udp),
		at(first, except, tcp), at(first, except, udp),
		at("spec.ingress[1]", nil, nil), // it is closed
		at("spec.egress[0]", []string{"spec.egress[0].to[0]"}, nil), at("spec.egress[1]", nil, nil),
	}, origins(t, np))
}

// A rule that replaces all rules of a direction has the path of the direction.
func TestRuleOriginOfClosedDirection(t *testing.T) {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	spec(t, "podSelector: {}\negress: [{}]", &np.Spec)
	np.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, 10_001)
	require.Equal(t, []convert.RuleOrigin{at("spec.ingress", nil, nil), at("spec.egress[0]", nil, nil)}, origins(t, np))
}

// RuleOrigins returns the peers and protocols of a ClusterNetworkPolicy.
func TestRuleOriginClusterNetworkPolicy(t *testing.T) {
	cnp := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "2"}}
	spec(t, `
tier: Admin
priority: 1
subject: {namespaces: {}}
ingress:
- action: Deny
  from: [{namespaces: {}}]
egress:
- action: Accept
  to: [{namespaces: {}}, {networks: [10.0.0.0/8]}]
  protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {}}, {tcp: {destinationPort: {number: 81}}}]
`, &cnp.Spec)
	const out = "spec.egress[0]"
	pods, nets := []string{out + ".to[0]"}, []string{out + ".to[1]"}
	tcp, udp := []string{out + ".protocols[0]", out + ".protocols[2]"}, []string{out + ".protocols[1]"}
	require.Equal(t, []convert.RuleOrigin{
		at("spec.ingress[0]", []string{"spec.ingress[0].from[0]"}, nil),
		at(out, pods, tcp), at(out, pods, udp), at(out, nets, tcp), at(out, nets, udp),
	}, origins(t, cnp))
}

// RuleOrigins returns the rule of a Calico policy.
func TestRuleOriginCalico(t *testing.T) {
	object := &calico.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "3"}}
	spec(t, "{ingress: [{action: Deny}, {action: Allow}], egress: [{action: Pass}]}", &object.Spec)
	require.Equal(t, []convert.RuleOrigin{
		at("spec.ingress[0]", nil, nil), at("spec.ingress[1]", nil, nil), at("spec.egress[0]", nil, nil),
	}, origins(t, object))
}

// Staged policies have origins, too.
func TestRuleOriginStaged(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	plain := &calico.StagedNetworkPolicy{ObjectMeta: meta}
	spec(t, "{egress: [{action: Pass}]}", &plain.Spec)
	require.Equal(t, []convert.RuleOrigin{at("spec.egress[0]", nil, nil)}, origins(t, plain))
	staged := &calico.StagedKubernetesNetworkPolicy{ObjectMeta: meta}
	spec(t, "podSelector: {}\ningress: [{ports: [{port: 80}]}]", &staged.Spec)
	ports := []string{"spec.ingress[0].ports[0]"}
	require.Equal(t, []convert.RuleOrigin{at("spec.ingress[0]", nil, ports)}, origins(t, staged))
}

// A changed rule has another ID. An object that is not a valid policy has no origins.
func TestInvalidObjectHasNoRuleOrigins(t *testing.T) {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	spec(t, "podSelector: {}\ningress: [{}]", &np.Spec)
	p, _ := convert.Converter{}.NetworkPolicy(np)
	id := policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0]
	require.Contains(t, convert.Converter{}.RuleOrigins(np), id)
	changed := np.DeepCopy()
	spec(t, "podSelector: {}\ningress: [{ports: [{port: 80}]}]", &changed.Spec)
	require.NotContains(t, convert.Converter{}.RuleOrigins(changed), id)
	invalid := np.DeepCopy()
	invalid.Name = ""
	for _, object := range []metav1.Object{invalid, testPod(), &calico.NetworkPolicy{}} {
		require.Empty(t, convert.Converter{}.RuleOrigins(object), "%T", object)
	}
}

// Of the blocks and ports that share a rule, Narrow returns those that a packet can match. A named
// port can be any port.
func TestRuleOriginNarrow(t *testing.T) {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	spec(t, `
podSelector: {}
ingress:
- from: [{ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 192.0.2.0/24}}, {ipBlock: {cidr: 10.0.0.0/8}}]
  ports: [{port: 80}, {port: 8000, endPort: 8010}, {port: http}]
egress:
- to: [{ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 192.0.2.0/24}}]
  ports: [{port: 80}, {}]
`, &np.Spec)
	src, dst := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("192.0.2.7")
	var got []string
	for _, o := range (convert.Converter{}).RuleOrigins(np) {
		other := o.Narrow(netip.IPv6Loopback(), netip.IPv6Loopback(), 0)
		got = append(got, o.Narrow(src, dst, 8005).String(), other.String())
	}
	require.ElementsMatch(t, []string{
		"ingress[0].from[0], from[2], ports[1], ports[2]", "ingress[0].from[0], from[1], from[2], ports[2]",
		"egress[0].to[1], ports[0], ports[1]", "egress[0].to[0], to[1], ports[0], ports[1]",
	}, got)
}

// The text of an origin has no prefix "spec", and a limited number of entries.
func TestRuleOriginText(t *testing.T) {
	for want, o := range map[string]convert.RuleOrigin{
		"ingress":                       at("spec.ingress", nil, nil),
		"egress[2]":                     at("spec.egress[2]", nil, nil),
		"ingress[0].from[1], ports[0]":  at("spec.ingress[0]", paths("from", 1), paths("ports", 0)),
		"ingress[0].ports[0], ports[2]": at("spec.ingress[0]", nil, paths("ports", 0, 2)),
		"ingress[0].from[0], from[1], from[2], from[3], from[4], 2 more, ports[9]": at(
			"spec.ingress[0]", paths("from", 0, 1, 2, 3, 4, 5, 6), paths("ports", 9)),
	} {
		require.Equal(t, want, o.String())
	}
}

// paths returns the paths of entries of the first ingress rule.
func paths(list string, entries ...int) (paths []string) {
	for _, i := range entries {
		paths = append(paths, fmt.Sprintf("spec.ingress[0].%s[%d]", list, i))
	}
	return paths
}
