// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/policy"
)

// The test of a dataplane. The dataplane is filter, and kernel has the objects that it programs.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T) in a test file
		conformance.Run(t, func(*testing.T) conformance.Harness {
			k, broken := &kernel{}, false
			var current *filter
			return conformance.Harness{
				Open: func(*testing.T) dataplane.Dataplane {
					current = newFilter(memory{dptest.NewMirror(), k, &broken}, "")
					return current
				},
				Dump:  func(*testing.T) string { return k.text },
				Judge: func(p dptest.Packet) (allowed bool, err error) { return current.judge(p) },
				Spoil: func(s dptest.State) policy.Key {
					key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "test", Name: "bad"}
					s.Endpoints[key] = &dataplane.Endpoint{Interface: bad} // a name that it refuses
					return key
				},
				Damage: func(*testing.T) { k.text = "damaged" },
				Worlds: 100,
			}
		})
	}
}
