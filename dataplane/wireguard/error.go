// SPDX-License-Identifier: Apache-2.0

package wireguard

import "errors"

// backend is the name in errors.
const backend = "wireguard"

// Causes of a *dataplane.ApplyError, for errors.Is.
var (
	// ErrKey: the file of a private key cannot be used.
	ErrKey = errors.New("private key")
	// ErrPeer: a node announces an invalid key, or a key that another node or this node has, or it has no address.
	// Packets to it are dropped.
	ErrPeer = errors.New("invalid peer")
	// ErrHostEndpoint: with Config.HostEncryption, packets between nodes enter and leave by our devices, so
	// a host endpoint of another interface does not see them.
	ErrHostEndpoint = errors.New("host endpoint does not see what is encrypted")
)
