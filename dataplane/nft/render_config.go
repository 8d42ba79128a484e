// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// RendererConfig configures a Renderer. It is a plain value.
type RendererConfig struct {
	// Table is the name of the nftables table, ours alone. Default "wayleave".
	Table string
	// InterfacePrefix is what the names of workload interfaces begin with: one that is no known
	// endpoint's drops, so it must not be how other interfaces are named ("wl" is how wireless ones are).
	// Endpoints may have other names; such an interface is only judged while its endpoint is known.
	// At most 14 bytes. Default "way".
	InterfacePrefix string
	// EgressPriority and IngressPriority are the priorities of the base chains that hold what senders may
	// send and what receivers may receive. The first must be the smaller, and more than -200, that of connection
	// tracking, without which all that the host sends is invalid. Both zero means -10 and -9.
	EgressPriority, IngressPriority int
	// EndpointToHost is what becomes of traffic from a workload to its own host once the workload's egress
	// policy has allowed it. Default HostDrop.
	EndpointToHost HostAction
	// KeepInvalid leaves packets that connection tracking calls invalid to policy. By default they
	// are dropped.
	KeepInvalid bool
	// LogPrefix begins the kernel log line of a Log rule; the rule's id follows. At most 63 bytes. Default
	// "wayleave".
	LogPrefix string
}

// HostAction is what becomes of traffic from a workload to its own host. It is a plain value.
type HostAction string

// The host actions. Accept and Return differ only where policy for the host itself exists: Accept
// passes it over. Base chains of other tables have their say in any case.
const (
	HostDrop   HostAction = "Drop"
	HostReturn HostAction = "Return"
	HostAccept HostAction = "Accept"
)

// The limits of the texts in a RendererConfig, in bytes: what the kernel leaves room for.
const (
	maxInterfacePrefix = ruleset.IfnameSize - 2
	maxLogPrefix       = 63
)

// conntrackPriority is where connection tracking stands in the output hook (NF_IP_PRI_CONNTRACK).
const conntrackPriority = -200

func (c RendererConfig) withDefaults() RendererConfig {
	c.Table = cmp.Or(c.Table, "wayleave")
	c.InterfacePrefix = cmp.Or(c.InterfacePrefix, "way")
	c.EndpointToHost = cmp.Or(c.EndpointToHost, HostDrop)
	c.LogPrefix = cmp.Or(c.LogPrefix, "wayleave")
	if c.EgressPriority == 0 && c.IngressPriority == 0 {
		c.EgressPriority, c.IngressPriority = -10, -9
	}
	return c
}

func (c RendererConfig) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("nft: renderer config: "+format, args...))
	}
	if !ruleset.ValidName(c.Table) {
		bad("Table %q is no name", c.Table)
	}
	if !ruleset.ValidIfname(c.InterfacePrefix) || len(c.InterfacePrefix) > maxInterfacePrefix ||
		clean(c.InterfacePrefix) != c.InterfacePrefix {
		bad("InterfacePrefix %q is no beginning of an interface name", c.InterfacePrefix)
	}
	if c.EgressPriority >= c.IngressPriority {
		bad("EgressPriority %d is not less than IngressPriority %d", c.EgressPriority, c.IngressPriority)
	}
	if c.EgressPriority <= conntrackPriority || c.IngressPriority > math.MaxInt32 {
		bad("EgressPriority %d and IngressPriority %d are not between %d and %d",
			c.EgressPriority, c.IngressPriority, conntrackPriority+1, math.MaxInt32)
	}
	switch c.EndpointToHost {
	case HostDrop, HostReturn, HostAccept:
	default:
		bad("EndpointToHost %q is not Drop, Return or Accept", c.EndpointToHost)
	}
	if len(c.LogPrefix) > maxLogPrefix || strings.ContainsFunc(c.LogPrefix, notQuotable) {
		bad("LogPrefix %q: at most %d printable bytes, no quotation mark, backslash or dollar", c.LogPrefix, maxLogPrefix)
	}
	return errors.Join(errs...)
}
