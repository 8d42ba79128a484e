// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"net"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

type linkConfig struct {
	namespace, inside, outside string
	mac                        net.HardwareAddr
	mtu                        int
	addresses                  []netip.Addr
}

type link struct {
	outside string
	mac     net.HardwareAddr
}

func connect(linkConfig) (*link, error) { return nil, errors.ErrUnsupported }

func disconnect(name string, _ net.HardwareAddr) error { return linkError(name, errors.ErrUnsupported) }

func inspect(string, string, *policy.WorkloadEndpoint) error {
	return errors.Join(errLink, errors.ErrUnsupported)
}
