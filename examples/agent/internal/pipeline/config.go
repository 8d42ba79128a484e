// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"log/slog"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config says what to program, and where. It is a plain value.
type Config struct {
	// Manifests is the directory of Kubernetes and Calico manifests. It is watched. Required.
	Manifests string
	// Node is the name of this node, as spec.nodeName of its pods has it. Required.
	Node string
	// NetNS is a file descriptor of the network namespace to program; it must stay open while Run
	// runs. 0 means that of the process.
	NetNS int
	// Table is the name of the nftables table, ours alone. Default "wayleave".
	Table string
	// InterfacePrefix is what the names of the interfaces of workloads begin with; those that no
	// manifest accounts for drop all traffic. Default "way".
	InterfacePrefix string
	// TrustAnnotations lets pods say what their interface and MAC address are.
	TrustAnnotations bool
	// ForwardIPv6 switches on the forwarding of IPv6 between all interfaces of the node, without which workloads
	// have none. The node then no longer heeds router advertisements.
	ForwardIPv6 bool
	// Logger is told what happens. Nil discards.
	Logger *slog.Logger
	// Programmed is called after each attempt to program, on the driver's goroutine: it must not block. Optional.
	Programmed func(State)
}

// State is what one attempt to program came to. It is a plain value; the table must not be changed.
type State struct {
	// Table that the kernel holds; nil before the first, and while it is not known.
	Table *ruleset.Table
	// Time at which the attempt ended.
	Time time.Time
	// Events of the batch; 0 for a retry or a resync.
	Events int
	// Err is what could not be programmed.
	Err error
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Programmed == nil {
		c.Programmed = func(State) {}
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Manifests == "" {
		errs = append(errs, errors.New("pipeline: Config.Manifests: a directory is required"))
	}
	if c.Node == "" {
		errs = append(errs, errors.New("pipeline: Config.Node: a name is required"))
	}
	return errors.Join(errs...)
}
