// SPDX-License-Identifier: Apache-2.0

package wireguard

import "errors"

// backend is the name of this package in errors and drifts.
const backend = "wireguard"

// Causes of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrKey: the file of a private key cannot be used.
	ErrKey = errors.New("private key")
	// ErrRemoteNode: a node has no address, or announces an invalid key or a key of another node or
	// of this node. Packets to it are dropped.
	ErrRemoteNode = errors.New("invalid remote node")
	// ErrHostEndpoint: with Config.HostEncryption, packets between nodes use a WireGuard device, so
	// the policy of a host endpoint of another interface does not apply to them.
	ErrHostEndpoint = errors.New("host endpoint does not apply to packets inside WireGuard")
)
