// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// PortError is the error of an invalid port.
type PortError struct{ Err error }

// Error returns the cause in words.
func (e *PortError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PortError) Unwrap() error { return e.Err }

// PartyError is the error of a party that does not exist.
type PartyError struct{ Err error }

// Error returns the cause in words.
func (e *PartyError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PartyError) Unwrap() error { return e.Err }

// Parse returns the flows from one party (from) to another (to). A party is a pod (NAMESPACE/NAME,
// or a pattern with *) or an address. The last argument has the protocol and the port, for example
// tcp/5432. There is a flow from each address of the first party to each address of the same family
// of the second party. If patterns match the same pod on both sides, there is no flow from the pod
// to itself.
func Parse(world verdict.World, from, to, what string) ([]verdict.Flow, error) {
	port, err := probe.ParsePort(what)
	if err != nil {
		return nil, &PortError{err}
	}
	index := probe.NewIndex(world)
	sources, err := index.Find(from)
	if err != nil {
		return nil, &PartyError{err}
	}
	destinations, err := index.Find(to)
	if err != nil {
		return nil, &PartyError{err}
	}
	var flows []verdict.Flow
	pattern, itself := strings.Contains(from+to, "*"), false
	for _, src := range sources {
		for _, dst := range destinations {
			if pattern && probe.Same(src, dst) { // policy does not apply to packets of a pod to itself
				itself = true
				continue
			}
			flows = append(flows, port.Flows(src, dst)...)
		}
	}
	if len(flows) == 0 && itself {
		return nil, fmt.Errorf("%s and %s match no two different pods with port %s: policy does not apply to what a "+
			"pod sends to itself", from, to, port)
	}
	if len(flows) == 0 {
		return nil, fmt.Errorf("%s and %s have no addresses of one family, or %s has no port %s: give two of one "+
			"family, or the number of the port", from, to, to, port)
	}
	return flows, nil
}
