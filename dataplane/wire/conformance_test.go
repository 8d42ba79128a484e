// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/policy"
)

// A dataplane behind a socket keeps the contract.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness { return harness(t, nil) })
}

// An asynchronous dataplane behind a socket keeps the contract, too.
func TestConformanceOfDelayed(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := harness(t, func(dp dataplane.Dataplane) dataplane.Dataplane { return dptest.NewDelayed(dp) })
		h.Damage = nil // Delayed does not watch the inner dataplane
		open := h.Open
		h.Open = func(t *testing.T) dataplane.Dataplane { return withoutPlan{open(t).(*wire.Server)} }
		return h
	})
}

// withoutPlan hides the method of a Planner: Delayed has none.
type withoutPlan struct{ asynchronous }

// asynchronous has the methods of an asynchronous dataplane that a Driver uses.
type asynchronous interface {
	dataplane.Dataplane
	dataplane.Watcher
}

func harness(t *testing.T, wrap func(dataplane.Dataplane) dataplane.Dataplane) conformance.Harness {
	k := &kernel{}
	var last memory
	return conformance.Harness{
		Open: func(t *testing.T) dataplane.Dataplane {
			last = newMemory(k)
			if wrap != nil {
				return pair(t, wrap(last))
			}
			return pair(t, last)
		},
		Dump: func(*testing.T) string { return k.dump() },
		Damage: func(*testing.T) {
			k.set("damaged")
			last.drifts <- dataplane.Drift{Backend: "memory", Object: "all"}
		},
		Fault: func(*testing.T) func() {
			k.fail(errors.New("injected"))
			return func() { k.fail(nil) }
		},
		Spoil: func(s dptest.State) policy.Key {
			s.Endpoints[endpointKey("w1")] = &dataplane.Endpoint{Interface: bad}
			return endpointKey("w1")
		},
		Judge: k.judge,
	}
}

// few is the number of random worlds for clients in other processes, which start slowly.
func few() int {
	if testing.Short() {
		return 1
	}
	return 5
}
