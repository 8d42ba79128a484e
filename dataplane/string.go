// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// String returns the events, one a line, without a newline at the end.
func (b Batch) String() string { return join(b.Events, "\n") }

// String returns "nets" or "ports".
func (t IPSetType) String() string {
	switch t {
	case IPSetNets:
		return "nets"
	case IPSetPorts:
		return "ports"
	default:
		return "type-" + strconv.Itoa(int(t))
	}
}

// String returns "10.0.0.0/8" or, for a member of a set of type IPSetPorts, "10.0.0.1,tcp:80".
func (m Member) String() string {
	if m.Protocol == 0 {
		return m.Prefix.String()
	}
	return m.Prefix.Addr().String() + "," + protocol(m.Protocol) + ":" + strconv.Itoa(int(m.Port))
}

// String returns "ipset ID TYPE [MEMBER ...]".
func (e *IPSetUpdate) String() string {
	return fmt.Sprintf("ipset %s %s [%s]", e.ID, e.Type, join(e.Members, " "))
}

// String returns "ipset ID +ADDED ... -REMOVED ...".
func (e *IPSetDelta) String() string {
	w := words{"ipset", string(e.ID)}
	for _, m := range e.Added {
		w.add("+" + m.String())
	}
	for _, m := range e.Removed {
		w.add("-" + m.String())
	}
	return w.String()
}

// String returns "remove ipset ID".
func (e *IPSetRemove) String() string { return "remove ipset " + string(e.ID) }

// String returns "policy KEY tier TIER: RULES"; see Policy.String.
func (e *PolicyUpdate) String() string { return "policy " + e.Key.String() + " " + e.Policy.String() }

// String returns "remove policy KEY".
func (e *PolicyRemove) String() string { return "remove policy " + e.Key.String() }

// String returns "profile NAME: RULES"; see Profile.String.
func (e *ProfileUpdate) String() string { return "profile " + e.Name + e.Profile.String() }

// String returns "remove profile NAME".
func (e *ProfileRemove) String() string { return "remove profile " + e.Name }

// String returns "endpoint KEY ..."; see Endpoint.String.
func (e *EndpointUpdate) String() string {
	return "endpoint " + e.Key.String() + " " + e.Endpoint.String()
}

// String returns "remove endpoint KEY".
func (e *EndpointRemove) String() string { return "remove endpoint " + e.Key.String() }

// String returns "host endpoint KEY ..."; see HostEndpoint.String.
func (e *HostEndpointUpdate) String() string {
	return "host endpoint " + e.Key.String() + " " + e.HostEndpoint.String()
}

// String returns "remove host endpoint KEY".
func (e *HostEndpointRemove) String() string { return "remove host endpoint " + e.Key.String() }

// String returns "in-sync".
func (*InSync) String() string { return "in-sync" }

// String returns the policy in one line, as in "tier default staged: ingress allow tcp dst ports
// 80; egress deny". It leaves out the IDs of rules.
func (p *Policy) String() string {
	if p == nil {
		return "nil"
	}
	head := "tier " + p.Tier
	if p.Staged {
		head += " staged"
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{p.Forward, "forward"}, {p.Untracked, "untracked"}, {p.PreDNAT, "pre-dnat"}} {
		if flag.set {
			head += " " + flag.name
		}
	}
	return head + rules(p.Ingress, p.Egress)
}

// String returns the rules in one line, as in ": ingress allow; egress allow". It leaves out the
// IDs of rules.
func (p *Profile) String() string {
	if p == nil {
		return ": nil"
	}
	return rules(p.Ingress, p.Egress)
}

// String returns the endpoint in one line, as in "eth0 [10.0.0.1 fd00::1] mac 02:00:00:00:00:01
// down ingress default:deny[Policy/shop/a] egress - profiles [kns.shop]".
func (e *Endpoint) String() string {
	if e == nil {
		return "nil"
	}
	w := words{e.Interface, "[" + join(e.Addresses, " ") + "]"}
	w.addIf(e.MAC != "", "mac "+e.MAC)
	w.addIf(e.Down, "down")
	w.add("ingress " + tiers(e.Ingress))
	w.add("egress " + tiers(e.Egress))
	w.add("profiles [" + strings.Join(e.Profiles, " ") + "]")
	for _, n := range e.NATs {
		w.add("nat " + n.ExternalIP.String() + ">" + n.InternalIP.String())
	}
	w.addIf(len(e.AllowedSources) > 0, "sources ["+join(e.AllowedSources, " ")+"]")
	return w.String()
}

// String returns the host endpoint in one line, as in "eth0 [10.0.0.1] ingress
// default:deny[Policy/a] egress - profiles [p]". The lists "forward-ingress", "forward-egress",
// "untracked-ingress", "untracked-egress" and "pre-dnat" follow if they are not empty.
func (h *HostEndpoint) String() string {
	if h == nil {
		return "nil"
	}
	w := words{cmp.Or(h.Interface, "-"), "[" + join(h.Addresses, " ") + "]"}
	w.add("ingress " + tiers(h.Ingress))
	w.add("egress " + tiers(h.Egress))
	w.add("profiles [" + strings.Join(h.Profiles, " ") + "]")
	for _, list := range []struct {
		name  string
		tiers []TierPolicies
	}{
		{"forward-ingress", h.ForwardIngress},
		{"forward-egress", h.ForwardEgress},
		{"untracked-ingress", h.UntrackedIngress},
		{"untracked-egress", h.UntrackedEgress},
		{"pre-dnat", h.PreDNATIngress},
	} {
		if len(list.tiers) > 0 {
			w.add(list.name + " " + tiers(list.tiers))
		}
	}
	return w.String()
}

// String returns "tier:deny[Policy/a Policy/ns/b]", with the default action after the colon.
func (t TierPolicies) String() string {
	return t.Tier + ":" + strings.ToLower(string(t.DefaultAction)) + "[" + join(t.Policies, " ") + "]"
}

// words has the parts of a line.
type words []string

func (w *words) add(s string) { *w = append(*w, s) }

func (w words) String() string { return strings.Join(w, " ") }

func join[T fmt.Stringer](list []T, sep string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = v.String()
	}
	return strings.Join(parts, sep)
}

func tiers(list []TierPolicies) string {
	if len(list) == 0 {
		return "-"
	}
	return join(list, ",")
}

func protocol(p policy.Protocol) string { return strings.ToLower(p.String()) }
