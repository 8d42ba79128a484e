// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// answerTimeout is how long a pod waits for an answer. It is long enough for a slow machine.
const answerTimeout = 30 * time.Second

// programTimeout is how long two nodes may take until their routes, devices and keys are in the
// kernel.
const programTimeout = time.Minute

// encapsulation is the type of the outer packets between nodes, which contain the pods' packets.
type encapsulation uint8

const (
	direct encapsulation = iota
	vxlan
	ipip
	wireGuard
)

// Mode is a routing mode: how traffic travels between two nodes.
type Mode struct {
	// Name of the mode, as in "IP in IP".
	Name string

	encapsulation encapsulation
	// module is the kernel module that the mode needs; empty if it needs none.
	module string
	// families are the families of the pods' addresses.
	families []family
}

// family is an address family.
type family uint8

const (
	four family = 4
	six  family = 6
)

// Modes returns all modes, in the order of the demo.
func Modes() []Mode {
	both := []family{four, six}
	return []Mode{
		{Name: "directly", encapsulation: direct, families: both},
		{Name: "VXLAN", encapsulation: vxlan, module: "vxlan", families: both},
		{Name: "IP in IP", encapsulation: ipip, module: "ipip", families: []family{four}},
		{Name: "WireGuard", encapsulation: wireGuard, module: "wireguard", families: both},
	}
}

// Result is the result of Show for one mode.
type Result struct {
	// Mode is the name of the mode.
	Mode string
	// Missing is the module that the kernel lacks, or empty. If a module is missing, there are no
	// Exchanges.
	Missing string
	// Exchanges are the exchanges of packets between the pods, one for each address family.
	Exchanges []Exchange
}

// Exchange is a request of one pod and the answer of another.
type Exchange struct {
	// From and To are the addresses of the pods.
	From, To netip.Addr
	// Wire describes the packet that should carry the request from one node to the other.
	Wire string
	// Faults describe missing and wrong packets; empty if there are none.
	Faults []string
}

// String returns a line for each exchange, or one that names the missing module.
func (r Result) String() string {
	if r.Missing != "" {
		return fmt.Sprintf("%-12s not shown: the kernel has no module %s\n", r.Mode, r.Missing)
	}
	var b strings.Builder
	name := r.Mode
	for _, e := range r.Exchanges {
		outcome := "answered: " + e.Wire
		if len(e.Faults) > 0 {
			outcome = "FAILED: " + strings.Join(e.Faults, "; ")
		}
		fmt.Fprintf(&b, "%-12s %s -> %s %s\n", name, e.From, e.To, outcome)
		name = "" // only the first line has the name of the mode
	}
	return b.String()
}

// Failures returns the faults of all exchanges, each with the mode and the addresses.
func (r Result) Failures() (list []string) {
	for _, e := range r.Exchanges {
		for _, fault := range e.Faults {
			list = append(list, fmt.Sprintf("%s: %s -> %s: %s", r.Mode, e.From, e.To, fault))
		}
	}
	return list
}

// Show creates two nodes that reach each other in the mode. Their pods exchange packets, which Show
// captures on the link between the nodes. Show changes only network namespaces that it makes
// itself.
func (m Mode) Show(ctx context.Context) (r Result, err error) {
	r = Result{Mode: m.Name}
	p := &pair{mode: m}
	defer func() {
		if err = errors.Join(err, p.close()); err != nil {
			err = fmt.Errorf("nodetraffic: %s: %w", m.Name, err)
		}
	}()
	if err := p.build(); err != nil {
		return r, err
	}
	switch err := p.program(ctx); {
	case lacksFeature(err):
		r.Missing = m.module
		return r, nil
	case err != nil:
		return r, err
	}
	for i := range m.families {
		e, err := p.exchange(ctx, i)
		if err != nil {
			return r, err
		}
		r.Exchanges = append(r.Exchanges, e)
	}
	return r, nil
}
