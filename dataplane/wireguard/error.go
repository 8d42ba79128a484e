// SPDX-License-Identifier: Apache-2.0

package wireguard

import "errors"

// backend is the name in errors.
const backend = "wireguard"

// Causes of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrKey: the file of a private key cannot be used.
	ErrKey = errors.New("private key")
	// ErrRemoteNode: a node announces an invalid key, or a key that another node or this node has, or it has no
	// address. Packets to it are dropped.
	ErrRemoteNode = errors.New("invalid remote node")
	// ErrHostEndpoint: with Config.HostEncryption, packets between nodes use a WireGuard device, so the policy of a
	// host endpoint of another interface does not apply to them.
	ErrHostEndpoint = errors.New("host endpoint does not apply to packets inside WireGuard")
)
