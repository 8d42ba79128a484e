// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
)

// player applies one batch to a state. Its methods return the fault of an event as a
// text, or "" if there is none.
type player struct {
	state    *State
	refs     refs
	complete bool // in sync, or will be after this batch

	kinds map[string]kind
	last  dataplane.Event // before this one
	about object          // what the latest event is about
	seen  map[object]bool
	// tunnels that the batch removes.
	tunnels []dataplane.TunnelKey
}

// order checks the event's place in the batch.
func (p *player) order(e dataplane.Event) string {
	about, ok := objectOf(e)
	if !ok {
		return "unknown event"
	}
	if p.seen[about] {
		return "second event of the same object in a batch"
	}
	p.seen[about] = true
	if p.last != nil {
		if step, id := dataplane.CompareEvents(p.last, e); step > 0 {
			return "out of order"
		} else if step == 0 && id >= 0 {
			return "not sorted by id"
		}
	}
	p.last, p.about = e, about
	return ""
}

func (p *player) play(e dataplane.Event) string {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		return p.ipSetUpdate(e)
	case *dataplane.IPSetDelta:
		return p.ipSetDelta(e)
	case *dataplane.InSync:
		if p.state.InSync {
			return "a second in-sync"
		}
		p.state.InSync = true
		return ""
	case *dataplane.EndpointUpdate, *dataplane.HostEndpointUpdate:
		if !p.complete {
			return "an endpoint before the batch that carries in-sync" // S97
		}
	case *dataplane.TunnelRemove:
		p.tunnels = append(p.tunnels, e.Key)
	}
	msg := p.kinds[p.about.kind].play(p, e)
	if msg != "" {
		return msg
	}
	return p.state.checkStages(e)
}

func (p *player) ipSetUpdate(e *dataplane.IPSetUpdate) string {
	if msg := checkSetID(e.ID, e.Type); msg != "" {
		return msg
	}
	if old, ok := p.state.Sets[e.ID]; ok && old.Type != e.Type {
		return "changes the type of a set"
	}
	if msg := checkMembers(e.Type, e.Members); msg != "" {
		return msg
	}
	p.state.Sets[e.ID] = Set{Type: e.Type, Members: e.Members}
	return ""
}

func (p *player) ipSetDelta(e *dataplane.IPSetDelta) string {
	old, ok := p.state.Sets[e.ID]
	if !ok {
		return "the set does not exist"
	}
	if len(e.Added)+len(e.Removed) == 0 {
		return "changes nothing"
	}
	for _, list := range [][]dataplane.Member{e.Added, e.Removed} {
		if msg := checkMembers(old.Type, list); msg != "" {
			return msg
		}
	}
	for _, m := range e.Removed {
		if !contains(old.Members, m) {
			return "removes the absent member " + m.String()
		}
	}
	for _, m := range e.Added {
		if contains(old.Members, m) {
			return "adds the present member " + m.String()
		}
	}
	members := append(without(old.Members, e.Removed), e.Added...)
	slices.SortFunc(members, dataplane.Member.Compare)
	p.state.Sets[e.ID] = Set{Type: old.Type, Members: members}
	return ""
}

// finish checks conditions that must hold after a batch, but not between its events, because routes
// and tunnels are replaced one by one.
func (p *player) finish() string {
	for _, k := range p.tunnels {
		if n := p.refs[object{"Tunnel", k}]; n > 0 {
			return fmt.Sprintf("%d routes lead through the removed tunnel %s", n, k)
		}
	}
	type address struct {
		version int
		text    string
	}
	seen := map[address]string{} // by node
	for k, t := range p.state.Tunnels {
		for _, a := range []address{{k.IPVersion, t.Address.String()}, {k.IPVersion, t.MAC}} {
			other, ok := seen[a]
			if ok && other != k.Node && a.text != "" {
				return fmt.Sprintf("tunnels %s and %s have the same address %s", min(other, k.Node),
					max(other, k.Node), a.text)
			}
			seen[a] = k.Node
		}
	}
	return ""
}

// checkSetID checks the form of a set's ID and that it fits the type.
func checkSetID(id dataplane.IPSetID, t dataplane.IPSetType) string {
	prefix := map[dataplane.IPSetType]string{dataplane.IPSetNets: "s:", dataplane.IPSetPorts: "p:"}[t]
	hash, ok := strings.CutPrefix(string(id), prefix)
	if !ok {
		hash, ok = strings.CutPrefix(string(id), "v:") // of a service: either type
	}
	if prefix == "" || !ok || hash == "" {
		return "the id does not fit the type " + t.String()
	}
	if strings.Trim(hash, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return "the id has an invalid character"
	}
	return ""
}
