// SPDX-License-Identifier: Apache-2.0

package wireguard

import "errors"

// backend is the name of this package in errors and drifts.
const backend = "wireguard"

// Causes of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrKey: the file of a private key cannot be used.
	ErrKey = errors.New("private key")
	// ErrRemoteNode: a remote node has no Node resource, has no address, announces an invalid key,
	// or announces a key that belongs to another node. A key belongs to this node if this node has
	// it. Otherwise it belongs to the first node, by name, that announces it. Packets to the remote
	// node are dropped.
	ErrRemoteNode = errors.New("invalid remote node")
	// ErrHostEndpoint: with Config.HostEncryption, packets between nodes use a WireGuard device, so
	// the policy of a host endpoint of another interface does not apply to them.
	ErrHostEndpoint = errors.New("host endpoint does not apply to packets inside WireGuard")
)
