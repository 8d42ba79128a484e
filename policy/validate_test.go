// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

func ptr[T any](v T) *T { return &v }

// goodPolicy, goodEndpoint, ... return valid resources; each test makes one field invalid.
func goodPolicy() *policy.Policy {
	return &policy.Policy{
		Namespace: "shop", Name: "web", Order: ptr(10.0), Selector: `app == "web"`,
		Types: []policy.Type{policy.Ingress}, Ingress: []policy.Rule{goodRule()},
		PerformanceHints: []policy.PerformanceHint{policy.AssumeNeededOnEveryNode},
	}
}

func goodRule() policy.Rule {
	return policy.Rule{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source:      policy.EntityRule{Nets: policy.Nets{netip.MustParsePrefix("10.0.0.0/8")}, Selector: "has(app)"},
		Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80), policy.PortName("http")}},
	}
}

func goodEndpoint() *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web-1", Node: "n1", Interface: "cali0",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		MAC:       "66:3e:ca:a4:db:65",
		Labels:    map[string]string{"app.kubernetes.io/name": "web", policy.LabelNamespace: "shop"},
		Ports:     []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: 8080}},
		Profiles:  []string{"kns.shop"}, AdminState: policy.AdminUp, IPNATs: []policy.IPNAT{
			{InternalIP: netip.MustParseAddr("10.0.0.1"), ExternalIP: netip.MustParseAddr("192.0.2.1")},
		},
		AllowSpoofedSourcePrefixes: prefixes("198.51.100.0/24", "0.0.0.0/0"),
	}
}

// good returns a valid resource of every kind.
func good() []policy.Resource {
	staged := goodPolicy()
	staged.Staged = true
	return []policy.Resource{
		goodPolicy(), staged, goodTier(), goodProfile(), goodSet(), goodEndpoint(),
		goodHost(), goodPool(), goodBlock(), goodNode(), goodBackends(),
	}
}

func goodTier() *policy.Tier {
	return &policy.Tier{Name: "security", Order: ptr(100.0), DefaultAction: policy.Pass}
}

func goodProfile() *policy.Profile {
	return &policy.Profile{
		Name: "kns.shop", LabelsToApply: map[string]string{"pcns.env": "prod"}, Ingress: []policy.Rule{goodRule()},
	}
}

func goodSet() *policy.NetworkSet {
	return &policy.NetworkSet{
		Namespace: "shop", Name: "partners", Labels: map[string]string{"role": "partner"},
		Nets: policy.Nets{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
	}
}

// problems returns the fields of the problems that Validate returns.
func problems(t *testing.T, r policy.Resource) []string {
	t.Helper()
	err := r.Validate()
	if err == nil {
		return nil
	}
	var invalid *policy.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, r.Key(), invalid.Key)
	var fields []string
	for _, p := range invalid.Problems {
		require.NotEmpty(t, p.Msg)
		fields = append(fields, p.Field)
	}
	return fields
}

func TestValidateGood(t *testing.T) {
	small := []policy.Resource{
		&policy.Policy{Name: "allow"}, &policy.Policy{Name: "allow", Staged: true},
		&policy.Tier{Name: "t"}, &policy.Profile{Name: "p"}, &policy.NetworkSet{Name: "s"},
		&policy.WorkloadEndpoint{Name: "w", Node: "n", Interface: "i"}, &policy.HostEndpoint{Name: "h", Node: "n"},
		&policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/32")},
		&policy.Block{CIDR: netip.MustParsePrefix("10.0.0.0/32")}, &policy.Node{Name: "n"},
		&policy.ServiceBackends{Namespace: "ns", Name: "s-1", Service: "s"},
	}
	var kinds, smallKinds []policy.Kind
	for i, r := range good() {
		kinds, smallKinds = append(kinds, r.Key().Kind), append(smallKinds, small[i].Key().Kind)
	}
	require.ElementsMatch(t, policy.Kinds(), kinds)
	require.Equal(t, kinds, smallKinds)
	for _, r := range append(good(), small...) {
		require.NoError(t, r.Validate())
		require.NoError(t, policy.Update{Key: r.Key(), Resource: r}.Validate())
	}
}

func TestValidatePolicy(t *testing.T) {
	for _, c := range []struct {
		name, field string // an empty field means valid
		edit        func(p *policy.Policy)
	}{
		{"no name", "name", func(p *policy.Policy) { p.Name = "" }},
		{"name with space", "name", func(p *policy.Policy) { p.Name = "a b" }},
		{"name with slash", "name", func(p *policy.Policy) { p.Name = "a/b" }},
		{"name with quote", "name", func(p *policy.Policy) { p.Name = `a"b` }},
		{"name with newline", "name", func(p *policy.Policy) { p.Name = "a\n" }},
		{"name beyond ASCII", "name", func(p *policy.Policy) { p.Name = "ä" }},
		{"longest name", "", func(p *policy.Policy) { p.Name = strings.Repeat("a", 265) }},
		{"name too long", "name", func(p *policy.Policy) { p.Name = strings.Repeat("a", 266) }},
		{"namespace with slash", "namespace", func(p *policy.Policy) { p.Namespace = "a/b" }},
		{"namespace with quote", "namespace", func(p *policy.Policy) { p.Namespace = `a"||all()` }},
		{"tier", "", func(p *policy.Policy) { p.Tier = "security" }},
		{"tier with space", "tier", func(p *policy.Policy) { p.Tier = "a b" }},
		{"negative order, S8", "", func(p *policy.Policy) { p.Order = ptr(-1.5) }},
		{"order NaN", "order", func(p *policy.Policy) { p.Order = ptr(math.NaN()) }},
		{"order infinite", "order", func(p *policy.Policy) { p.Order = ptr(math.Inf(-1)) }},
		{"blank selector, S1", "", func(p *policy.Policy) { p.Selector = " \t" }},
		{"selector", "selector", func(p *policy.Policy) { p.Selector = "app ==" }},
		{"selector with newline", "selector", func(p *policy.Policy) { p.Selector = "all()\n" }},
		{"selector no UTF-8", "selector", func(p *policy.Policy) { p.Selector = "a == '\xff'" }},
		{"selector too long", "selector", func(p *policy.Policy) { p.Selector = strings.Repeat(" ", 1<<20) }},
		{"namespaceSelector in a namespace", "namespaceSelector", func(p *policy.Policy) {
			p.NamespaceSelector = "all()"
		}},
		{"namespaceSelector in a global policy", "", func(p *policy.Policy) {
			p.Namespace, p.NamespaceSelector = "", "all()"
		}},
		{"namespaceSelector bad", "namespaceSelector", func(p *policy.Policy) {
			p.Namespace, p.NamespaceSelector = "", "("
		}},
		{"namespaceSelector label too long with its prefix", "namespaceSelector", func(p *policy.Policy) {
			p.Namespace, p.NamespaceSelector = "", "has("+strings.Repeat("a", 510)+")"
		}},
		{"serviceAccountSelector", "", func(p *policy.Policy) { p.ServiceAccountSelector = "has(a)" }},
		{"serviceAccountSelector bad", "serviceAccountSelector", func(p *policy.Policy) {
			p.ServiceAccountSelector = "x"
		}},
		{"types in any case, S12", "", func(p *policy.Policy) { p.Types = []policy.Type{"ingress", "EGRESS"} }},
		{"types unknown", "types[0]", func(p *policy.Policy) { p.Types = []policy.Type{"Both"} }},
		{"types empty string", "types[0]", func(p *policy.Policy) { p.Types = []policy.Type{""} }},
		{"types twice", "types[1]", func(p *policy.Policy) { p.Types = []policy.Type{"Ingress", "ingress"} }},
		{"applyOnForward", "", global(func(p *policy.Policy) { p.ApplyOnForward = true })},
		{"doNotTrack", "", global(func(p *policy.Policy) { p.ApplyOnForward, p.DoNotTrack = true, true })},
		{"preDNAT", "", global(func(p *policy.Policy) { p.ApplyOnForward, p.PreDNAT = true, true })},
		{"preDNAT without types", "", global(func(p *policy.Policy) {
			p.ApplyOnForward, p.PreDNAT, p.Types = true, true, nil
		})},
		{"doNotTrack of egress", "", global(func(p *policy.Policy) {
			p.ApplyOnForward, p.DoNotTrack, p.Types, p.Egress = true, true, []policy.Type{policy.Egress}, []policy.Rule{
				goodRule(),
			}
		})},
		{"doNotTrack without applyOnForward", "doNotTrack", global(func(p *policy.Policy) { p.DoNotTrack = true })},
		{"preDNAT without applyOnForward", "preDNAT", global(func(p *policy.Policy) { p.PreDNAT = true })},
		{"doNotTrack and preDNAT", "preDNAT", global(func(p *policy.Policy) {
			p.ApplyOnForward, p.DoNotTrack, p.PreDNAT = true, true, true
		})},
		{"preDNAT with egress rules, S38", "egress", global(func(p *policy.Policy) {
			p.ApplyOnForward, p.PreDNAT, p.Egress = true, true, []policy.Rule{goodRule()}
		})},
		{"preDNAT with type Egress, S38", "types[1]", global(func(p *policy.Policy) {
			p.ApplyOnForward, p.PreDNAT, p.Types = true, true, []policy.Type{"Ingress", "egress"}
		})},
		{"applyOnForward in a namespace", "applyOnForward", func(p *policy.Policy) { p.ApplyOnForward = true }},
		{"staged preDNAT without applyOnForward", "preDNAT", global(func(p *policy.Policy) {
			p.Staged, p.PreDNAT = true, true
		})},
		{"hint unknown", "performanceHints[0]", func(p *policy.Policy) { p.PerformanceHints[0] = "Fast" }},
		{"egress rule", "egress[1].action", func(p *policy.Policy) { p.Egress = []policy.Rule{goodRule(), {}} }},
		{"too many rules", "ingress", func(p *policy.Policy) { p.Ingress = make([]policy.Rule, 10_001) }},
	} {
		p := goodPolicy()
		c.edit(p)
		require.Equal(t, fieldList(c.field), problems(t, p), c.name)
	}
}

// global applies an edit to a global policy.
func global(edit func(*policy.Policy)) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.Namespace = ""
		edit(p)
	}
}

func fieldList(field string) []string {
	if field == "" {
		return nil
	}
	return []string{field}
}

// Edits of a valid rule.
func icmp(proto policy.Protocol, typ, code *int) func(*policy.Rule) {
	return func(r *policy.Rule) {
		*r = policy.Rule{Action: policy.Deny, Protocol: proto, HeaderMatch: policy.HeaderMatch{
			ICMP: &policy.ICMP{Type: typ, Code: code},
		}}
	}
}

func src(e policy.EntityRule) func(*policy.Rule) { return func(r *policy.Rule) { r.Source = e } }

func ports(proto policy.Protocol, ports ...policy.Port) func(*policy.Rule) {
	return func(r *policy.Rule) {
		*r = policy.Rule{Action: policy.Allow, Protocol: proto, Destination: policy.EntityRule{Ports: ports}}
	}
}

func notPorts(proto policy.Protocol, ports ...policy.Port) func(*policy.Rule) {
	return func(r *policy.Rule) {
		*r = policy.Rule{Action: policy.Allow, Protocol: proto, Source: policy.EntityRule{NotPorts: ports}}
	}
}

func nets(p netip.Prefix) policy.EntityRule { return policy.EntityRule{Nets: policy.Nets{p}} }

func TestValidateRule(t *testing.T) {
	for _, c := range []struct {
		name, field string
		edit        func(r *policy.Rule)
	}{
		{"no criterion, S41", "", func(r *policy.Rule) { *r = policy.Rule{Action: policy.Allow} }},
		{"no action, S29", ".action", func(r *policy.Rule) { r.Action = "" }},
		{"action in another case", ".action", func(r *policy.Rule) { r.Action = "allow" }},
		{"log", "", func(r *policy.Rule) { r.Action = policy.Log }},
		{"pass", "", func(r *policy.Rule) { r.Action = policy.Pass }},
		{"ipVersion 6", "", func(r *policy.Rule) { r.IPVersion = 6 }},
		{"ipVersion 5", ".ipVersion", func(r *policy.Rule) { r.IPVersion = 5 }},
		{"icmp of the other family never matches, S66", "", func(r *policy.Rule) {
			*r = policy.Rule{Action: policy.Allow, IPVersion: 6, Protocol: policy.ProtocolICMP}
		}},
		{"icmp type 0 code 0, S63", "", icmp(policy.ProtocolICMP, ptr(0), ptr(0))},
		{"icmp type 254", "", icmp(policy.ProtocolICMPv6, ptr(254), ptr(255))},
		{"icmp type 255, S65", ".icmp.type", icmp(policy.ProtocolICMP, ptr(255), nil)},
		{"icmp type -1", ".icmp.type", icmp(policy.ProtocolICMP, ptr(-1), nil)},
		{"icmp no type", ".icmp.type", icmp(policy.ProtocolICMP, nil, nil)},
		{"icmp code without type", ".icmp.type", icmp(policy.ProtocolICMP, nil, ptr(0))},
		{"icmp code 256", ".icmp.code", icmp(policy.ProtocolICMP, ptr(3), ptr(256))},
		{"icmp without protocol", ".icmp", icmp(0, ptr(3), nil)},
		{"icmp with tcp", ".icmp", icmp(policy.ProtocolTCP, ptr(3), nil)},
		{"notICMP without protocol", ".notICMP", func(r *policy.Rule) {
			*r = policy.Rule{Action: policy.Allow, HeaderMatch: policy.HeaderMatch{NotICMP: &policy.ICMP{Type: ptr(1)}}}
		}},
		{"nets not masked, S71", ".source.nets[0]", src(nets(netip.MustParsePrefix("12.1.0.0/8")))},
		{"nets zero value", ".source.nets[0]", src(nets(netip.Prefix{}))},
		{"nets mapped", ".source.nets[0]", src(nets(netip.MustParsePrefix("::ffff:10.0.0.0/104")))},
		{"notNets not masked", ".source.notNets[0]", src(policy.EntityRule{
			NotNets: policy.Nets{netip.MustParsePrefix("fd00::1/64")},
		})},
		{"selector", ".source.selector", src(policy.EntityRule{Selector: "a = b"})},
		{"notSelector", ".source.notSelector", src(policy.EntityRule{NotSelector: "a = b"})},
		{"namespaceSelector", "", src(policy.EntityRule{NamespaceSelector: "global()"})},
		{"namespaceSelector bad", ".source.namespaceSelector", src(policy.EntityRule{NamespaceSelector: "a = b"})},
		{"serviceAccounts", "", src(policy.EntityRule{
			ServiceAccounts: &policy.ServiceAccounts{Names: []string{"a"}, Selector: "has(b)"},
		})},
		{"serviceAccounts empty", ".source.serviceAccounts", src(policy.EntityRule{
			ServiceAccounts: &policy.ServiceAccounts{Names: []string{}},
		})},
		{"serviceAccounts empty name", ".source.serviceAccounts.names[0]", src(policy.EntityRule{
			ServiceAccounts: &policy.ServiceAccounts{Names: []string{""}},
		})},
		{"serviceAccounts selector", ".source.serviceAccounts.selector", src(policy.EntityRule{
			ServiceAccounts: &policy.ServiceAccounts{Selector: "("},
		})},
		{"port 65535, S50", "", ports(policy.ProtocolSCTP, policy.PortRange(1, 65535), policy.PortNumber(65535))},
		{"port 0, S49", ".destination.ports[0]", ports(policy.ProtocolTCP, policy.Port{})},
		{"port range from 0", ".destination.ports[0]", ports(policy.ProtocolTCP, policy.PortRange(0, 5))},
		{"port range backwards", ".destination.ports[0]", ports(policy.ProtocolTCP, policy.PortRange(6, 5))},
		{"port name and number", ".destination.ports[0]", ports(policy.ProtocolTCP,
			policy.Port{Name: "a", First: 1, Last: 1})},
		{"port name that looks like a range", ".destination.ports[0]", ports(policy.ProtocolTCP,
			policy.PortName("80-90"))},
		{"port name too long", ".destination.ports[0]", ports(policy.ProtocolTCP,
			policy.PortName(strings.Repeat("a", 129)))},
		{"ports without protocol, S51", ".destination.ports[1]", ports(0, policy.PortName("http"),
			policy.PortNumber(80))},
		{"ports with icmp, S51", ".destination.ports[0]", ports(policy.ProtocolICMP, policy.PortNumber(80))},
		{"ports with udplite", ".destination.ports[0]", ports(policy.ProtocolUDPLite, policy.PortNumber(80))},
		{"named port without protocol, S51", "", ports(0, policy.PortName("http"))},
		{"named port with icmp", ".destination.ports[0]", ports(policy.ProtocolICMP, policy.PortName("http"))},
		{"notPorts without protocol, S51", ".source.notPorts[0]", notPorts(0, policy.PortNumber(80))},
		{"named notPorts without protocol, S51", "", notPorts(0, policy.PortName("http"))},
		{"too many ports", ".destination.ports", ports(policy.ProtocolTCP, make([]policy.Port, 10_001)...)},
		{"annotation", "", func(r *policy.Rule) {
			r.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "two\nlines"}}
		}},
		{"annotation control character", ".metadata.annotations.why", func(r *policy.Rule) {
			r.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "\x1b[2J"}}
		}},
		{"too many annotations", ".metadata.annotations", func(r *policy.Rule) {
			r.Metadata = &policy.RuleMetadata{Annotations: map[string]string{}}
			for _, a := range many(1025) {
				r.Metadata.Annotations[a.String()] = ""
			}
		}},
		{"annotation without key", `.metadata.annotations[""]`, func(r *policy.Rule) {
			r.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"": "x"}}
		}},
	} {
		r := goodRule()
		c.edit(&r)
		want := c.field
		if want != "" {
			want = "egress[1]" + want
		}
		for _, res := range []policy.Resource{
			&policy.Policy{Name: "p", Egress: []policy.Rule{goodRule(), r}},
			&policy.Profile{Name: "p", Egress: []policy.Rule{goodRule(), r}},
		} {
			require.Equal(t, fieldList(want), problems(t, res), c.name)
		}
	}
}

func TestValidateTier(t *testing.T) {
	for _, c := range []struct {
		tier  policy.Tier
		field string
	}{
		{policy.Tier{Name: ""}, "name"},
		{policy.Tier{Name: "t", Order: ptr(math.NaN())}, "order"},
		{policy.Tier{Name: "t", DefaultAction: policy.Deny}, ""},
		{policy.Tier{Name: "t", DefaultAction: policy.Allow}, "defaultAction"},
		{policy.Tier{Name: "t", DefaultAction: "pass"}, "defaultAction"},
		{policy.Tier{Name: "default", Order: ptr(1e6)}, ""},
		{policy.Tier{Name: "default"}, "order"},
		{policy.Tier{Name: "default", Order: ptr(1e6), DefaultAction: policy.Pass}, "defaultAction"},
		{policy.Tier{Name: "kube-admin", Order: ptr(1e3), DefaultAction: policy.Pass}, ""},
		{policy.Tier{Name: "kube-admin", Order: ptr(1e3)}, "defaultAction"},
		{policy.Tier{Name: "kube-baseline", Order: ptr(1e7), DefaultAction: policy.Pass}, ""},
		{policy.Tier{Name: "kube-baseline", Order: ptr(1.0), DefaultAction: policy.Pass}, "order"},
	} {
		require.Equal(t, fieldList(c.field), problems(t, &c.tier), "%+v", c.tier)
	}
}

func TestValidateLabels(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"app.kubernetes.io/name", "web", true},
		{"a", "", true},
		{"a", "any ünïcode 'text' \"here\"", true},
		{strings.Repeat("a", 512), "", true},
		{strings.Repeat("a", 513), "", false},
		{"", "x", false},
		{"a b", "x", false},
		{"a", "x\ny", false},
		{"a", "\xff", false},
		{"a", strings.Repeat("x", 4097), false},
	} {
		labels := map[string]string{c.name: c.value}
		for _, r := range []policy.Resource{
			&policy.Profile{Name: "p", LabelsToApply: labels}, &policy.NetworkSet{Name: "p", Labels: labels},
			&policy.WorkloadEndpoint{Name: "w", Node: "n", Interface: "i", Labels: labels},
			&policy.HostEndpoint{Name: "h", Node: "n", Labels: labels}, &policy.Node{Name: "n", Labels: labels},
		} {
			require.Equal(t, c.ok, r.Validate() == nil, "%s %q", r.Key(), labels)
		}
	}
	many := map[string]string{}
	for i := range 1025 {
		many[strings.Repeat("a", 1+i%500)+strings.Repeat("b", i/500)] = ""
	}
	require.Equal(t, []string{"labels"}, problems(t, &policy.NetworkSet{Name: "s", Labels: many}))
}

// The namespace label must equal the namespace.
func TestValidateNamespaceLabel(t *testing.T) {
	field := `labels["projectcalico.org/namespace"]`
	for _, c := range []struct {
		namespace, label string
		ok               bool
	}{{"shop", "shop", true}, {"shop", "other", false}, {"shop", "", false}, {"", "shop", false}, {"", "", false}} {
		labels := map[string]string{policy.LabelNamespace: c.label}
		want := fieldList(field)
		if c.ok {
			want = nil
		}
		require.Equal(t, want, problems(t, &policy.NetworkSet{Namespace: c.namespace, Name: "s", Labels: labels}),
			"%+v", c)
		w := goodEndpoint()
		w.Namespace, w.Labels = c.namespace, labels
		require.Equal(t, want, problems(t, w), "%+v", c)
		if c.namespace == "" {
			require.Equal(t, want, problems(t, &policy.HostEndpoint{Name: "h", Node: "n", Labels: labels}), "%+v", c)
		}
	}
	require.Equal(t, []string{`labelsToApply["projectcalico.org/namespace"]`},
		problems(t, &policy.Profile{Name: "p", LabelsToApply: map[string]string{policy.LabelNamespace: "shop"}}))
}

func TestValidateNetworkSet(t *testing.T) {
	s := goodSet()
	s.Nets = append(s.Nets, s.Nets[0], netip.MustParsePrefix("0.0.0.0/0")) // S85, S86
	require.NoError(t, s.Validate())
	s.Nets[1] = netip.MustParsePrefix("2001:db8::1/32")
	require.Equal(t, []string{"nets[1]"}, problems(t, s))
	require.ErrorContains(t, s.Validate(), "Canonical")
	require.NoError(t, policy.Canonical(s).Validate())
	require.Equal(t, []string{"namespace", "name"}, problems(t, &policy.NetworkSet{Namespace: "a b"}))
}

// nat changes the NAT at the index.
func nat(i int, internal, external string) func(*policy.WorkloadEndpoint) {
	addr := func(s string) netip.Addr { a, _ := netip.ParseAddr(s); return a }
	return func(w *policy.WorkloadEndpoint) {
		w.IPNATs = append(w.IPNATs[:i], policy.IPNAT{InternalIP: addr(internal), ExternalIP: addr(external)})
	}
}

func TestValidateEndpoint(t *testing.T) {
	for _, c := range []struct {
		name, field string
		edit        func(w *policy.WorkloadEndpoint)
	}{
		{"no name", "name", func(w *policy.WorkloadEndpoint) { w.Name = "" }},
		{"namespace", "namespace", func(w *policy.WorkloadEndpoint) { w.Namespace, w.Labels = "a/b", nil }},
		{"no node", "node", func(w *policy.WorkloadEndpoint) { w.Node = "" }},
		{"no interface, S102", "interface", func(w *policy.WorkloadEndpoint) { w.Interface = "" }},
		{"interface of 15 bytes", "", func(w *policy.WorkloadEndpoint) { w.Interface = "cali12345678901" }},
		{"interface of 16 bytes", "interface", func(w *policy.WorkloadEndpoint) { w.Interface = "cali123456789012" }},
		{"mac empty", "", func(w *policy.WorkloadEndpoint) { w.MAC = "" }},
		{"mac short", "mac", func(w *policy.WorkloadEndpoint) { w.MAC = "66:3e:ca:a4:db" }},
		{"mac EUI-64", "mac", func(w *policy.WorkloadEndpoint) { w.MAC = "66:3e:ca:a4:db:65:00:00" }},
		{"mac not hex", "mac", func(w *policy.WorkloadEndpoint) { w.MAC = "66:3e:ca:a4:db:+5" }},
		{"mac multicast", "mac", func(w *policy.WorkloadEndpoint) { w.MAC = "01:00:5e:00:00:01" }},
		{"mac zero", "mac", func(w *policy.WorkloadEndpoint) { w.MAC = "00:00:00:00:00:00" }},
		{"port name", "ports[0].name", func(w *policy.WorkloadEndpoint) { w.Ports[0].Name = "80" }},
		{"port no name", "ports[0].name", func(w *policy.WorkloadEndpoint) { w.Ports[0].Name = "" }},
		{"port no protocol", "ports[0].protocol", func(w *policy.WorkloadEndpoint) { w.Ports[0].Protocol = 0 }},
		{"port protocol icmp", "ports[0].protocol", func(w *policy.WorkloadEndpoint) {
			w.Ports[0].Protocol = policy.ProtocolICMP
		}},
		{"port 0", "ports[0].port", func(w *policy.WorkloadEndpoint) { w.Ports[0].Port = 0 }},
		{"two ports of one name, S53", "", func(w *policy.WorkloadEndpoint) {
			w.Ports = append(w.Ports, policy.EndpointPort{Name: "http", Protocol: policy.ProtocolTCP, Port: 81})
		}},
		{"profile empty", "profiles[1]", func(w *policy.WorkloadEndpoint) { w.Profiles = append(w.Profiles, "") }},
		{"profile twice", "profiles[1]", func(w *policy.WorkloadEndpoint) {
			w.Profiles = append(w.Profiles, "kns.shop")
		}},
		{"too many profiles", "profiles", func(w *policy.WorkloadEndpoint) { w.Profiles = make([]string, 257) }},
		{"too many addresses", "addresses", func(w *policy.WorkloadEndpoint) {
			w.Addresses = append(w.Addresses, many(255)...)
		}},
		{"too many ports", "ports", func(w *policy.WorkloadEndpoint) { w.Ports = make([]policy.EndpointPort, 10_001) }},
		{"admin state", "adminState", func(w *policy.WorkloadEndpoint) { w.AdminState = "down" }},
		{"too many NATs", "ipNATs", func(w *policy.WorkloadEndpoint) { w.IPNATs = make([]policy.IPNAT, 257) }},
		{"NAT to another's address", "ipNATs[0].internalIP", nat(0, "10.0.0.2", "192.0.2.1")},
		{"NAT to nowhere", "ipNATs[0].internalIP", nat(0, "", "192.0.2.1")},
		{"NAT of IPv6", "", nat(0, "fd00::1", "2001:db8::1")},
		{"NAT between families", "ipNATs[0].externalIP", nat(0, "10.0.0.1", "2001:db8::1")},
		{"NAT of no address", "ipNATs[0].externalIP", nat(0, "10.0.0.1", "")},
		{"NAT of a multicast address", "ipNATs[0].externalIP", nat(0, "10.0.0.1", "224.0.0.1")},
		{"NAT of a mapped address", "ipNATs[0].externalIP", nat(0, "10.0.0.1", "::ffff:192.0.2.1")},
		{"NAT of the own address", "ipNATs[0].externalIP", nat(0, "10.0.0.1", "10.0.0.1")},
		{"two NATs to one address", "", nat(1, "10.0.0.1", "192.0.2.2")},
		{"two NATs of one address", "ipNATs[1].externalIP", nat(1, "10.0.0.1", "192.0.2.1")},
		{"spoofed prefix not masked", "allowSpoofedSourcePrefixes[1]", func(w *policy.WorkloadEndpoint) {
			w.AllowSpoofedSourcePrefixes[1] = netip.MustParsePrefix("10.1.0.0/8")
		}},
		{"too many spoofed prefixes", "allowSpoofedSourcePrefixes", func(w *policy.WorkloadEndpoint) {
			w.AllowSpoofedSourcePrefixes = make(policy.Nets, 257)
		}},
	} {
		w := goodEndpoint()
		c.edit(w)
		require.Equal(t, fieldList(c.field), problems(t, w), c.name)
	}
	for _, name := range []string{
		".", "..", "all", "default", "lo", "a/b", "a:b", "a b", "a\tb", `a"b`, "cali*", `a\b`, "ä", "a%d",
	} {
		w := goodEndpoint()
		w.Interface = name
		require.Equal(t, []string{"interface"}, problems(t, w), name)
	}
	for _, addr := range []string{
		"0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "fe80::1%eth0", "::ffff:10.0.0.9",
		"255.255.255.255", "10.0.0.1",
	} {
		w := goodEndpoint()
		w.Addresses = append(w.Addresses, netip.MustParseAddr(addr))
		require.Equal(t, []string{"addresses[2]"}, problems(t, w), addr)
	}
	w := goodEndpoint()
	w.Addresses[1] = netip.Addr{}
	require.Equal(t, []string{"addresses[1]"}, problems(t, w))
}

// All problems are reported, in the order of the fields.
func TestValidateReportsAll(t *testing.T) {
	p := goodPolicy()
	p.Tier, p.Selector = "a b", "("
	p.Ingress = append(p.Ingress, policy.Rule{}, policy.Rule{Action: "x", IPVersion: 1})
	require.Equal(t, []string{"tier", "selector", "ingress[1].action", "ingress[2].action", "ingress[2].ipVersion"},
		problems(t, p))
	err := p.Validate()
	require.ErrorContains(t, err, "policy: invalid Policy/shop/web: tier: ")
	require.ErrorContains(t, err, "ingress[1].action: required")

	p.Ingress = make([]policy.Rule, 200)
	var invalid *policy.ValidationError
	require.ErrorAs(t, p.Validate(), &invalid)
	require.Len(t, invalid.Problems, 100)
	require.Less(t, len(invalid.Error()), 1000)
}

func TestValidateUpdate(t *testing.T) {
	key := goodPolicy().Key()
	require.NoError(t, policy.Update{Key: key}.Validate(), "a deletion")
	for name, u := range map[string]policy.Update{
		"another name": {
			Key: policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "x"}, Resource: goodPolicy(),
		},
		"another kind": {
			Key: policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "web"}, Resource: goodPolicy(),
		},
		"invalid":       {Key: policy.Key{Kind: policy.KindTier}, Resource: &policy.Tier{}},
		"a nil pointer": {Key: key, Resource: (*policy.Policy)(nil)},
	} {
		var invalid *policy.ValidationError
		require.True(t, errors.As(u.Validate(), &invalid), name)
		require.Equal(t, u.Key, invalid.Key, name)
	}
}
