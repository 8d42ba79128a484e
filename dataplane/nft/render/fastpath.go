// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// AffectsEstablished reports whether a change may affect packets of established connections.
// Changes of IP sets and of normal policy do not affect them. (Normal policy is all policy except
// untracked and pre-DNAT policy.)
func AffectsEstablished(d *ruleset.Delta) bool {
	names := slices.Concat(d.DeleteChains, d.DeleteSets)
	for _, c := range d.Chains {
		names = append(names, c.Name)
	}
	for _, s := range d.Sets {
		names = append(names, s.Name)
	}
	for _, e := range d.Elements {
		names = append(names, e.Set)
	}
	return slices.ContainsFunc(names, func(name string) bool { return !isPolicy(name) })
}

// isPolicy reports whether the name is that of a chain, set or map of normal policy. Only packets
// of new connections use these.
func isPolicy(name string) bool {
	return slices.ContainsFunc([]string{
		"group-", "classify-", "tier-", "pol-", "prof-", "outcome-", "outcomes-", "class4", "class6", "gc-",
		"go-", "s4-", "s6-", "n4-", "n6-", "p4-", "p6-", "v4-", "v6-", "l4-", "l6-", "lp-", "vp-",
		"allow/", "deny/", "pass/",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// FastPathAddresses returns the addresses whose established connections may use the fast path: a
// flowtable, in which packets bypass the chains. The result maps the interfaces of endpoints to
// their addresses. An endpoint is left out if it is down, or if its interface is a port of one of
// Config.Bridges.
//
// Two kinds of established connections may use the fast path:
//
//   - Both sides have an address in the result.
//   - One side has an address in the result, and the interface of the other side belongs to no
//     workload.
//
// The fast path changes no verdict, because the chain forward accepts all packets of these
// connections.
//
// FastPathAddresses returns nil if other rules may decide about packets of established connections.
// Any of these is enough:
//
//   - Config.ReversePath is set;
//   - the interface of an endpoint is a port of a bond or another master, except one of
//     Config.Bridges;
//   - the name of an endpoint's interface does not begin with Config.InterfacePrefix;
//   - a host endpoint has no interface name, and its addresses select its interfaces;
//   - a host endpoint has untracked or pre-DNAT policy.
func (r *Renderer) FastPathAddresses() map[string][]netip.Addr {
	r.renderDirty()
	if r.cfg.ReversePath || !r.base.acceptsKnown() || slices.Contains(r.base.host.enforced[hostRawIn:], true) {
		return nil
	}
	own := map[string][]netip.Addr{}
	interfaces := r.endpoints.interfaces
	for name, i := range interfaces.byName {
		for s := range i.claims {
			if s.ok && interfaces.bridge(name) == "" && !interfaces.bridges.has(name) {
				own[name] = append(own[name], s.workload.Addresses...)
			}
		}
	}
	return own
}
