// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// Config configures a Dataplane. It is a plain value.
type Config struct {
	// Renderer says what the table looks like: its name above all, which must be ours alone.
	Renderer RendererConfig
	// NetNS is a file descriptor of the network namespace whose packets to judge, needed
	// only during New. Zero means the namespace of the thread that calls New.
	NetNS int
	// Interfaces returns the addresses of all interfaces of the namespace, by name. It is called by Apply and Resync while there is a host
	// endpoint that is found by address. Nil means to ask the kernel.
	Interfaces func() (map[string][]netip.Addr, error)
	// ConntrackPolicy says what becomes of connections that were allowed when they began and that a change denies, and of those of
	// an address that goes to another endpoint. conntrack.Keep, the default, lets them go on, at no cost. conntrack.End ends just these:
	// see RendererConfig.TCPFromSYN, which should be set with it.
	ConntrackPolicy conntrack.Policy
	// Conntrack bounds at which rates connections are judged and ended, with conntrack.End. Its NetNS is not used, its Now must be nil, and its
	// Logger is ours if nil.
	Conntrack conntrack.Config
	// Logger is told of what happens to the table. Nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.NetNS < 0 {
		errs = append(errs, errors.New("nft: config: NetNS is no file descriptor"))
	}
	if c.ConntrackPolicy > conntrack.End {
		errs = append(errs, fmt.Errorf("nft: config: ConntrackPolicy: %s", c.ConntrackPolicy))
	}
	if c.Conntrack.Now != nil {
		errs = append(errs, errors.New("nft: config: Conntrack.Now: sweeps go by the real clock"))
	}
	return errors.Join(errs...)
}
