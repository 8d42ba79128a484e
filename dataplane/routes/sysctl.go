// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/nsthread"
)

const procSys = "/proc/sys"

// settings returns what the interface of an endpoint must have, by path below /proc/sys.
// Paths, not names with dots: an interface's name may have dots itself.
func (c Config) settings(ep *endpoint) map[string]string {
	settings := map[string]string{}
	set := func(family int, name, value string) {
		settings[fmt.Sprintf("net/ipv%d/conf/%s/%s", family, ep.iface, name)] = value
	}
	if !c.NoForwarding {
		for _, prefix := range ep.prefixes {
			if prefix.Addr().Is4() {
				set(4, "forwarding", "1")
			} else {
				set(6, "forwarding", "1")
			}
		}
	}
	if c.ForwardAllIPv6 && slices.ContainsFunc(ep.prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		settings["net/ipv6/conf/all/forwarding"] = "1"
	}
	for _, s := range c.Sysctls {
		set(s.Family, s.Name, s.Value)
	}
	return settings
}

// differing returns those changes whose value is not there yet. What cannot be read blocks its endpoint.
func differing(namespace int, wanted []change, report *report) (changes []change) {
	eachIn(namespace, wanted, func(c change, err error) {
		var data []byte
		if err == nil {
			data, err = os.ReadFile(filepath.Join(procSys, c.path))
		}
		switch {
		case err != nil:
			report.block(c.key, "read sysctl", err)
		case strings.TrimSpace(string(data)) != c.value:
			changes = append(changes, c)
		}
	})
	return changes
}

// writeSysctls makes changes. What cannot be written blocks its endpoint.
func writeSysctls(namespace int, changes []change, report *report) {
	eachIn(namespace, changes, func(c change, err error) {
		if err == nil {
			err = writeSysctl(c.path, c.value)
		}
		if err != nil {
			report.block(c.key, setSysctl.String(), err)
		}
	})
}

func writeSysctl(path, value string) error {
	file, err := os.OpenFile(filepath.Join(procSys, path), os.O_WRONLY, 0) // never created
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// eachIn calls fn for each change where /proc/sys is that of the namespace; or, if that cannot be, with
// the reason.
func eachIn(namespace int, changes []change, fn func(change, error)) {
	if len(changes) == 0 {
		return
	}
	each := func() error {
		for _, c := range changes {
			fn(c, nil)
		}
		return nil
	}
	if namespace == 0 {
		_ = each() // returns nil
		return
	}
	if err := nsthread.In(namespace, each); err != nil {
		for _, c := range changes {
			fn(c, err)
		}
	}
}
