// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// endpoints renders every endpoint and its entries in the dispatch maps. An interface that several claim
// drops: there is no telling whose policy counts.
func (r *run) endpoints() {
	all := r.renderer.endpoints
	keys := slices.SortedFunc(maps.Keys(all), policy.Key.Compare)
	claims := map[string][]policy.Key{} // by interface
	for _, key := range keys {
		claims[all[key].Interface] = append(claims[all[key].Interface], key)
	}
	for _, key := range keys {
		e := all[key]
		if !ruleset.ValidIfname(e.Interface) {
			r.fail(key, fmt.Errorf("%q is no interface name", e.Interface)) // none can exist
			continue
		}
		claim := claims[e.Interface]
		if len(claim) > 1 {
			other := claim[0]
			if other == key {
				other = claim[1]
				r.dispatch.block(e.Interface)
			}
			r.fail(key, fmt.Errorf("interface %s is also that of %s", e.Interface, other))
			continue
		}
		if err := r.endpoint(key, e); err != nil {
			r.fail(key, err)
			r.dispatch.block(e.Interface)
		}
	}
}

// endpoint renders one endpoint. If it fails, it has left nothing that leads to it.
func (r *run) endpoint(key policy.Key, e *dataplane.Endpoint) error {
	if e.Down { // S35
		r.dispatch.block(e.Interface)
		return nil
	}
	for _, a := range e.Addresses {
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			return fmt.Errorf("address %s", a)
		}
	}
	from, err1 := r.endpointChain("from", key, egress, e.Egress, e.Profiles)
	to, err2 := r.endpointChain("to", key, ingress, e.Ingress, e.Profiles)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	r.dispatch.serve(e.Interface, e.Addresses, r.add(from), r.add(to))
	return nil
}

// endpointChain renders one direction of an endpoint: connections that were allowed once, then tiers,
// then profiles, then drop.
func (r *run) endpointChain(prefix string, key policy.Key, dir direction, tiers []dataplane.TierPolicies, profiles []string) (*ruleset.Chain, error) {
	c := &ruleset.Chain{Name: keyName(prefix, key), Rules: []ruleset.Rule{knownConnections()}}
	var errs []error
	for _, t := range tiers {
		name, err := r.tier(dir, t)
		errs = append(errs, err)
		if name != "" {
			c.Rules = append(c.Rules, ruleset.Rule{Statements: []ruleset.Statement{jump(name)}})
		}
	}
	for _, name := range profiles { // S31
		if r.renderer.profiles[name] == nil {
			errs = append(errs, fmt.Errorf("profile %s does not exist", name)) // S34
			continue
		}
		if err := r.listError(profileKey(name)); err != nil {
			errs = append(errs, fmt.Errorf("profile %s: %w", name, err))
			continue
		}
		c.Rules = append(c.Rules, ruleset.Rule{Statements: []ruleset.Statement{jump(profileChain(name, dir))}})
	}
	c.Rules = append(c.Rules, ruleset.Rule{ // S25, S33
		Statements: []ruleset.Statement{drop()}, Comment: "no tier or profile allowed it",
	})
	return c, errors.Join(errs...)
}

// dispatch is what leads from interfaces and addresses to the chains of endpoints.
type dispatch struct {
	known, up        []ruleset.Element // interfaces
	from4, from6, to []ruleset.Element // with verdicts
	source6          []ruleset.Element // interface and address
}

// block makes an interface drop everything.
func (d *dispatch) block(ifname string) {
	d.known = append(d.known, ifnameElement(ifname, nil))
	d.to = append(d.to, ifnameElement(ifname, &ruleset.Verdict{Kind: ruleset.Drop}))
}

// serve leads an interface's traffic to the chains of its endpoint.
func (d *dispatch) serve(ifname string, addrs []netip.Addr, from, to string) {
	d.known = append(d.known, ifnameElement(ifname, nil))
	d.up = append(d.up, ifnameElement(ifname, nil))
	d.to = append(d.to, ifnameElement(ifname, &ruleset.Verdict{Kind: ruleset.Goto, Chain: to}))
	for _, a := range slices.Compact(slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)) {
		e := ruleset.Element{Key: []ruleset.Value{ruleset.Ifname(ifname), ruleset.Addr(a)}}
		verdict := &ruleset.Verdict{Kind: ruleset.Goto, Chain: from}
		if a.Is4() {
			d.from4 = append(d.from4, ruleset.Element{Key: e.Key, Verdict: verdict})
			continue
		}
		d.from6 = append(d.from6, ruleset.Element{Key: e.Key, Verdict: verdict})
		d.source6 = append(d.source6, e)
	}
}

func ifnameElement(ifname string, v *ruleset.Verdict) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{ruleset.Ifname(ifname)}, Verdict: v}
}
