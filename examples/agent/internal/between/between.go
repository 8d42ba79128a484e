// SPDX-License-Identifier: Apache-2.0

package between

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/wayleave/wayleave/dataplane/routes"
)

// patience is how long a pod may wait for an answer, on a slow machine.
const patience = 30 * time.Second

// programming is how long two nodes may take until their routes, devices and keys are in the kernel.
const programming = time.Minute

// encapsulation is the kind of packet that carries the pods' packets between nodes.
type encapsulation uint8

const (
	direct encapsulation = iota
	vxlan
	ipip
	wireGuard
)

// Way is how traffic travels between two nodes.
type Way struct {
	// Name of the way, as in "IP in IP".
	Name string

	encapsulation encapsulation
	// module is the kernel module that the way needs; empty if it needs none.
	module string
	// families are those of the pods' addresses.
	families []family
}

// family is an address family.
type family uint8

const (
	four family = 4
	six  family = 6
)

// Ways returns all ways, in the order in which they are to be shown.
func Ways() []Way {
	both := []family{four, six}
	return []Way{
		{Name: "directly", encapsulation: direct, families: both},
		{Name: "VXLAN", encapsulation: vxlan, module: "vxlan", families: both},
		{Name: "IP in IP", encapsulation: ipip, module: "ipip", families: []family{four}},
		{Name: "WireGuard", encapsulation: wireGuard, module: "wireguard", families: both},
	}
}

// Result is the outcome for one way.
type Result struct {
	// Way is the name of the way.
	Way string
	// Missing is the module that the kernel lacks. There are no Exchanges then.
	Missing string
	// Exchanges are those of the pods, one for each address family.
	Exchanges []Exchange
}

// Exchange is a request of one pod and the answer of another.
type Exchange struct {
	// From and To are the addresses of the pods.
	From, To netip.Addr
	// Wire describes the packets with the request between the nodes.
	Wire string
	// Faults describe missing and wrong packets; empty if there are none.
	Faults []string
}

// String returns a line for each exchange, or one that names the missing module.
func (r Result) String() string {
	if r.Missing != "" {
		return fmt.Sprintf("%-12s not shown: the kernel has no module %s\n", r.Way, r.Missing)
	}
	var b strings.Builder
	name := r.Way
	for _, e := range r.Exchanges {
		outcome := "answered: " + e.Wire
		if len(e.Faults) > 0 {
			outcome = "FAILED: " + strings.Join(e.Faults, "; ")
		}
		fmt.Fprintf(&b, "%-12s %s -> %s %s\n", name, e.From, e.To, outcome)
		name = "" // the next lines are of the same way
	}
	return b.String()
}

// Failures returns the faults of all exchanges, each with the way and the addresses.
func (r Result) Failures() (list []string) {
	for _, e := range r.Exchanges {
		for _, fault := range e.Faults {
			list = append(list, fmt.Sprintf("%s: %s -> %s: %s", r.Way, e.From, e.To, fault))
		}
	}
	return list
}

// Show makes two nodes that reach each other by the way, has their pods exchange packets, and captures these
// on the link between the nodes. It changes no network namespace but those that it makes.
func (w Way) Show(ctx context.Context) (r Result, err error) {
	r = Result{Way: w.Name}
	p := &pair{way: w}
	defer func() {
		if err = errors.Join(err, p.close()); err != nil {
			err = fmt.Errorf("between: %s: %w", w.Name, err)
		}
	}()
	if err := p.build(); err != nil {
		return r, err
	}
	switch err := p.program(ctx); {
	case errors.Is(err, routes.ErrNoKind):
		r.Missing = w.module
		return r, nil
	case err != nil:
		return r, err
	}
	for i := range w.families {
		e, err := p.exchange(ctx, i)
		if err != nil {
			return r, err
		}
		r.Exchanges = append(r.Exchanges, e)
	}
	return r, nil
}
