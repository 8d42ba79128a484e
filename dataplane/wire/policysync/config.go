// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/wayleave/wayleave/policy"
)

const (
	// DefaultMaxSubscribers is the default of ServerConfig.MaxSubscribers.
	DefaultMaxSubscribers = 16
	// DefaultMaxQueued is the default of ServerConfig.MaxQueued.
	DefaultMaxQueued = 10_000
	// DefaultTimeout is the default of ServerConfig.Timeout.
	DefaultTimeout = 30 * time.Second
)

// ServerConfig configures a Server. It is copied by NewServer.
type ServerConfig struct {
	// Folder is the folder for the sockets: see the function Folder. Nothing else may use it. When
	// the desired state is complete for the first time, the Server removes stale sockets from the
	// folder. These are sockets that a killed server has left behind, and that no process listens
	// on. Required unless Socket is set.
	Folder string
	// Socket returns the path of the socket of a workload endpoint. An empty path means that the
	// endpoint has no socket. The Server calls Socket for each endpoint in each Apply and Resync.
	// By default, the function Folder determines the paths, with the field Folder as its argument.
	Socket func(policy.Key) string
	// Authenticate returns an error for a process that must not read the policy of the endpoint
	// with the key. The function Users returns a function for this field. The Server calls
	// Authenticate when the process connects, and again before it sends each response. It must be
	// safe for concurrent use: up to 8 calls run at a time. Default InWorkload.
	Authenticate func(policy.Key, Peer) error
	// NetNS is a file descriptor of the network namespace with the endpoints' interfaces, for
	// InWorkload and HasAddresses. 0 means the namespace of the process.
	NetNS int
	// MaxSubscribers limits the concurrent calls for one endpoint. An endpoint may have twice as
	// many connections. Default DefaultMaxSubscribers.
	MaxSubscribers int
	// MaxQueued limits the number of events and set members that wait for one subscriber. If there
	// are more, the subscriber gets a snapshot instead of them. Default DefaultMaxQueued.
	MaxQueued int
	// Timeout is how long a subscriber may take to read a message. It is also how long a subscriber
	// may take to read the status of its call when its endpoint is removed. A subscriber that takes
	// longer is disconnected. Default DefaultTimeout.
	Timeout time.Duration
	// Logger logs each socket that is opened or removed. It also logs refused peers, at most one in
	// 10 s for each endpoint. At level Debug, it also logs subscribers. Nil means no logging.
	Logger *slog.Logger
}

func (c ServerConfig) withDefaults() ServerConfig {
	if c.Socket == nil {
		c.Socket = Folder(c.Folder)
	}
	if c.Authenticate == nil {
		c.Authenticate = InWorkload
	}
	c.MaxSubscribers = cmp.Or(c.MaxSubscribers, DefaultMaxSubscribers)
	c.MaxQueued = cmp.Or(c.MaxQueued, DefaultMaxQueued)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c ServerConfig) validate() error {
	var errs []error
	if c.Socket == nil && c.Folder == "" {
		errs = append(errs, errors.New("policysync: ServerConfig.Folder: required without Socket"))
	}
	if c.NetNS < 0 || c.MaxSubscribers < 0 || c.MaxQueued < 0 || c.Timeout < 0 {
		errs = append(errs, errors.New("policysync: ServerConfig.NetNS, MaxSubscribers, "+
			"MaxQueued and Timeout: must not be negative"))
	}
	return errors.Join(errs...)
}
