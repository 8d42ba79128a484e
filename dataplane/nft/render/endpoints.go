// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// endpoints has the workload endpoints and the host endpoints.
type endpoints struct {
	table         *table
	faults        faults
	attachments   *attachments
	interfaces    *interfaces
	workloads     *workloads
	hosts         *hosts
	hostEndpoints *hostEndpoints
	nat           *nat
	nodes         *nodes

	byKey map[policy.Key]*subject
	dirty *dirtySet[*subject]
}

// set replaces an endpoint. If it is removed, both w and h are nil.
func (e *endpoints) set(key policy.Key, w *dataplane.Endpoint, h *dataplane.HostEndpoint) {
	s := e.byKey[key]
	switch {
	case s == nil && w == nil && h == nil:
		return
	case s == nil:
		s = &subject{key: key}
		e.byKey[key] = s
	}
	e.nat.setFloating(s, w)
	if s.workload != nil {
		e.interfaces.unclaim(s)
	}
	e.hosts.set(s, h)
	s.workload, s.host = w, h
	if w != nil {
		e.interfaces.claim(s)
	}
	e.dirty.mark(s)
}

// render renders the chains of an endpoint again, if it still exists.
func (e *endpoints) render(s *subject) {
	oldAttached, oldChains := s.attached, s.chains
	s.attached, s.chains, s.err, s.ok = attached{}, nil, nil, false
	switch {
	case s.workload != nil:
		e.workloads.render(s)
		e.interfaces.dirty.mark(s.workload.Interface)
	case s.host != nil:
		e.hostEndpoints.render(s)
		e.hosts.dirty = true
	default:
		delete(e.byKey, s.key)
	}
	e.faults.set(s.key, s.err)
	e.attachments.detach(s, oldAttached)
	for _, name := range oldChains {
		if !slices.Contains(s.chains, name) {
			e.table.chains.Drop(name)
		}
	}
}

// renderInterfaces renders the dirty interfaces of workload endpoints. If such an interface
// changes, a host endpoint may begin or cease to govern it, because workload endpoints take
// precedence.
func (e *endpoints) renderInterfaces() {
	e.interfaces.render()
	for name := range e.interfaces.dirty.objects {
		e.hosts.interfaceChanged(name)
	}
	e.interfaces.dirty.clear()
}

// pending reports whether anything is dirty.
func (e *endpoints) pending() bool {
	return e.dirty.len()+e.interfaces.dirty.len() > 0 || e.hosts.dirty || e.nat.dirty || e.nodes.dirty
}
