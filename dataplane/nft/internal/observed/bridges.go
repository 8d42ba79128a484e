// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/nsthread"
)

// bridges is the last known state of the bridges of Config.
type bridges struct {
	names []string
	// known is set once the following fields were read.
	known     bool
	addresses []netip.Addr // of all bridges, sorted
	calls     map[string]Calls
}

// Calls reports whether br_netfilter passes frames between two ports of a bridge to the netfilter
// hooks of IPv4, and to those of IPv6.
type Calls struct{ IPv4, IPv6 bool }

// readBridges reads the addresses and settings of bridges, if there are any.
func (o *Interfaces) readBridges(resync bool) error {
	b := &o.bridges
	if len(b.names) == 0 || b.known && o.watching && !resync {
		return nil
	}
	all, err := o.readInterfaces()
	if err != nil {
		return err
	}
	if b.calls, err = o.readCalls(); err != nil {
		return err
	}
	addresses := b.addressesIn(all)
	if !slices.Equal(addresses, b.addresses) {
		o.version++
	}
	b.addresses, b.known = addresses, true
	return nil
}

// bridgesDiffer names the first difference between a snapshot and the data about bridges that was
// last read. It returns "" if there is none.
func (o *Interfaces) bridgesDiffer(s *interfaces.Snapshot) string {
	b := &o.bridges
	if !b.known {
		return ""
	}
	if !slices.Equal(b.addresses, b.addressesIn(interfacesOf(s))) {
		return "the addresses of bridges"
	}
	if calls, err := o.readCalls(); err != nil || !maps.Equal(calls, b.calls) {
		return "bridge-nf-call of bridges"
	}
	return ""
}

// addressesIn returns the addresses of the bridges, sorted.
func (b *bridges) addressesIn(all map[string]render.Interface) (out []netip.Addr) {
	for _, name := range b.names {
		out = append(out, all[name].Addresses...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// BridgeAddresses returns the addresses of all bridges of Config, as they were last read. The
// caller must not change the slice.
func (o *Interfaces) BridgeAddresses() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bridges.addresses
}

// BridgeCalls returns the Calls of a bridge, as they were last read.
func (o *Interfaces) BridgeCalls(bridge string) Calls {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bridges.calls[bridge]
}

// readCalls reads the Calls of each bridge. Either the sysctls of br_netfilter or the attributes of
// the bridge can enable them. Without br_netfilter there are no sysctls, and the attributes have no
// effect.
func (o *Interfaces) readCalls() (map[string]Calls, error) {
	var all, loaded Calls
	read := func() (err error) {
		if all.IPv4, loaded.IPv4, err = call("iptables"); err != nil {
			return err
		}
		all.IPv6, loaded.IPv6, err = call("ip6tables")
		return err
	}
	var err error
	if o.namespace == 0 {
		err = read()
	} else {
		err = nsthread.In(o.namespace, read)
	}
	if err != nil {
		return nil, fmt.Errorf("read bridge-nf-call: %w", err)
	}
	calls := map[string]Calls{}
	for _, name := range o.bridges.names {
		link, err := o.link(name)
		if err != nil {
			return nil, err
		}
		calls[name] = Calls{
			IPv4: all.IPv4 || loaded.IPv4 && link.CallIPv4, IPv6: all.IPv6 || loaded.IPv6 && link.CallIPv6,
		}
	}
	return calls, nil
}

// call reads one of the sysctls in the namespace of the calling thread. Without br_netfilter,
// exists is false.
func call(name string) (on, exists bool, err error) {
	text, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return strings.TrimSpace(string(text)) != "0", err == nil, err
}
