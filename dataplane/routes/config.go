// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Defaults of Config.
const (
	// DefaultProtocol marks our routes and neighbour entries. It is free in iproute2's list of
	// route protocols and outside what routing daemons use (up to 199).
	DefaultProtocol = 219
	// DefaultTable is the main routing table.
	DefaultTable = 254
)

// tableLocal is the kernel's own table of the host's addresses.
const tableLocal = 255

// Config of a Dataplane. The zero value is good. It is a plain value.
type Config struct {
	// Namespace is the file descriptor of the network namespace to work in. It must stay open
	// for as long as the Dataplane is used. 0 means the program's own. Another one needs CAP_SYS_ADMIN, besides
	// the CAP_NET_ADMIN that is always needed.
	Namespace int
	// Protocol number by which our routes and neighbour entries are known: 5 to 255, of nobody else on
	// the node. 0 means DefaultProtocol.
	Protocol uint8
	// Table that routes go into. 0 means DefaultTable. Not 255, which is the kernel's.
	Table uint32
	// NoForwarding leaves the forwarding sysctls of endpoints' interfaces alone. Otherwise forwarding is
	// switched on for the families that the endpoint has addresses of.
	NoForwarding bool
	// ForwardAllIPv6 sets net.ipv6.conf.all.forwarding, without which the kernel forwards no IPv6 at
	// all. It changes how all of the node's interfaces treat router advertisements.
	ForwardAllIPv6 bool
	// Sysctls to set on every endpoint's interface, besides forwarding.
	Sysctls []Sysctl
	// Logger for what is worth knowing but no error. nil discards.
	Logger *slog.Logger
}

// Sysctl is a setting of an interface, under net.ipv4.conf or net.ipv6.conf. It is a plain value.
type Sysctl struct {
	// Family is 4 or 6.
	Family int
	// Name of the setting, as in "rp_filter".
	Name string
	// Value as the kernel prints it.
	Value string
}

func (c Config) withDefaults() Config {
	if c.Protocol == 0 {
		c.Protocol = DefaultProtocol
	}
	if c.Table == 0 {
		c.Table = DefaultTable
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// firstFreeProtocol is the least protocol number that the kernel does not use itself.
const firstFreeProtocol = 5

func (c Config) validate() error {
	var errs []error
	if c.Namespace < 0 {
		errs = append(errs, fmt.Errorf("routes: Namespace: %d is no file descriptor", c.Namespace))
	}
	if c.Protocol < firstFreeProtocol {
		errs = append(errs, fmt.Errorf("routes: Protocol: %d is the kernel's or an administrator's", c.Protocol))
	}
	if c.Table == tableLocal {
		errs = append(errs, errors.New("routes: Table: 255 is the kernel's"))
	}
	for i, s := range c.Sysctls {
		if s.Family != 4 && s.Family != 6 {
			errs = append(errs, fmt.Errorf("routes: Sysctls[%d].Family: %d is neither 4 nor 6", i, s.Family))
		}
		if s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			errs = append(errs, fmt.Errorf("routes: Sysctls[%d].Name: %q is no name of a setting", i, s.Name))
		}
		if s.Value == "" || strings.ContainsAny(s.Value, "\n\x00") {
			errs = append(errs, fmt.Errorf("routes: Sysctls[%d].Value: %q is no value", i, s.Value))
		}
	}
	return errors.Join(errs...)
}
