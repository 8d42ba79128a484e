// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/policy"
)

// modelConnection is a connection that an endpoint opened from an address.
type modelConnection struct {
	from   netip.Addr
	opener owner
}

// model is the Kernel of a Tracker. It records which endpoints are admitted and which connections
// exist.
type model struct {
	owners      *Tracker
	random      *rand.Rand
	withheld    []policy.Key
	admitted    map[owner]*dataplane.Endpoint
	connections []modelConnection
	opened      int
	// failures is how often in 10 calls the end of connections, or a transaction, fails.
	failures int
	// late is set if packets under way still create connections after a transaction or an end of
	// connections. The field inFlight has these connections until the next grace period.
	late     bool
	inFlight []modelConnection
}

func mayUse(e *dataplane.Endpoint, a netip.Addr) bool {
	return e != nil && (slices.Contains(e.Addresses, a) || contains(e.AllowedSources, a))
}

func modelAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 50, 0, byte(i)}) }

func (m *model) fails() bool { return m.random.IntN(10) < m.failures }

// flush programs the endpoints that are not withheld. A transaction that fails may have taken
// effect.
func (m *model) flush() (ok bool) {
	failed := m.fails()
	if failed && m.random.IntN(2) == 0 {
		return false
	}
	m.admitted = map[owner]*dataplane.Endpoint{}
	for key, e := range m.owners.endpoints {
		if !e.Down && !slices.Contains(m.withheld, key) {
			m.admitted[sender(key, e)] = e
		}
	}
	return !failed
}

// open returns new connections of admitted endpoints, each from a random part of its addresses.
func (m *model) open() (opened []modelConnection) {
	for opener, e := range m.admitted {
		for i := range 8 {
			if a := modelAddress(i); mayUse(e, a) && m.random.IntN(4) == 0 {
				opened = append(opened, modelConnection{from: a, opener: opener})
			}
		}
	}
	m.opened += len(opened)
	return opened
}

func (m *model) Program(_ context.Context, withheld []policy.Key) (errs []error, done bool) {
	m.withheld = withheld
	m.send()
	return nil, m.flush()
}

func (m *model) End(_ context.Context, selected Connections) (int, error) {
	if m.fails() {
		return 0, errors.New("not ended")
	}
	before := len(m.connections)
	m.connections = slices.DeleteFunc(m.connections, func(c modelConnection) bool {
		return slices.Contains(selected.Hosts, c.from) || selected.Sources != nil && selected.Sources(c.from)
	})
	m.send()
	return before - len(m.connections), nil
}

// send adds packets of admitted endpoints to those under way.
func (m *model) send() {
	if m.late {
		m.inFlight = append(m.inFlight, m.open()...)
	}
}

func (m *model) WaitGrace() { m.connections, m.inFlight = append(m.connections, m.inFlight...), nil }

// batch changes one to three of four endpoints.
func (m *model) batch() (b dataplane.Batch) {
	for range 1 + m.random.IntN(3) {
		name := string(rune('a' + m.random.IntN(4)))
		key := nfttest.ObjectKey(policy.KindWorkloadEndpoint, name)
		e := dataplane.Endpoint{Interface: "way" + name}
		if old := m.owners.endpoints[key]; old != nil {
			e = *old
		}
		change := m.random.IntN(10)
		switch {
		case change == 0:
			b.Events = append(b.Events, &dataplane.EndpointRemove{Key: key})
			continue
		case change == 1:
			e.MAC = []string{"", "02:00:00:00:00:01"}[m.random.IntN(2)]
		case change <= 3:
			e.Down = !e.Down
		case change <= 5:
			e.Addresses = nil
			if m.random.IntN(2) == 0 {
				e.Addresses = []netip.Addr{modelAddress(m.random.IntN(8))}
			}
		default:
			e.AllowedSources = nil
			for range m.random.IntN(3) {
				e.AllowedSources = append(e.AllowedSources,
					netip.PrefixFrom(modelAddress(m.random.IntN(8)), 29+m.random.IntN(4)))
			}
		}
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: &e})
	}
	return b
}

// passedOn returns a connection that another endpoint may use, although its opener may no longer
// use its address. An endpoint that is down keeps its addresses. The connections of an endpoint's
// own address do not end with a prefix.
func (m *model) passedOn() (modelConnection, bool) {
	for _, c := range m.connections {
		opener := m.owners.endpoints[c.opener.key]
		own := false
		for _, e := range m.owners.endpoints {
			own = own || slices.Contains(e.Addresses, c.from)
		}
		if own || opener != nil && sender(c.opener.key, opener) == c.opener && mayUse(opener, c.from) {
			continue
		}
		for other, e := range m.admitted {
			if other != c.opener && mayUse(e, c.from) {
				return c, true
			}
		}
	}
	return modelConnection{}, false
}

// S168: whatever the order of changes, failures and cancelled calls, no endpoint inherits a
// connection with a prefix of AllowedSources.
func TestNoConnectionIsInheritedWithPrefix(t *testing.T) {
	for name, base := range map[string]model{
		"plain": {}, "late connections": {late: true}, "failures": {failures: 2}, "both": {failures: 2, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			batches, done, opened := 0, 0, 0
			for seed := range uint64(1500) {
				m := base
				m.owners, m.random = New(), rand.New(rand.NewPCG(seed, 168))
				for step := range 14 {
					m.owners.Update(m.batch())
					batches++
					if m.failures > 0 && m.random.IntN(5) == 0 {
						continue // the call was cancelled
					}
					if errs, programmed := m.owners.Handover(t.Context(), &m); programmed && len(errs) == 0 {
						done++
						m.WaitGrace()
						c, found := m.passedOn()
						require.False(
							t, found, "seed %d, step %d: connection of %v from %v", seed, step, c.opener, c.from,
						)
					}
					m.connections = append(m.connections, m.open()...)
				}
				opened += m.opened
			}
			t.Logf("%d batches, %d programmed, %d connections", batches, done, opened)
			require.Greater(t, done, batches/4)
			require.Greater(t, opened, batches/2)
		})
	}
}
