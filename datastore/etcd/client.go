// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Secret is a text that is hidden when it is formatted, logged or encoded.
type Secret string

const hidden = "(secret)"

// Format writes "(secret)" for every verb, or nothing if the Secret is empty.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		_, _ = io.WriteString(f, hidden)
	}
}

// LogValue hides the text from package slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(s)) }

// MarshalText hides the text from encoders. It never fails.
func (s Secret) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(s)), nil }

// TLS names the files of a TLS client. With the zero value, the client uses the CAs of the system
// and has no certificate. It reads all files for each new connection, so they can be replaced while
// the client runs.
type TLS struct {
	// CAFile has the CA certificates that verify the servers' certificates, in PEM. Default: those
	// of the system.
	CAFile string
	// CertFile and KeyFile have the client's certificate and key, in PEM. Set both or neither.
	CertFile, KeyFile string
	// ServerName is the name that the servers' certificates must have. Default: the host of the
	// endpoint.
	ServerName string
}

// Config configures a Client: the etcd servers, the user, and the part of the key space. The Client
// does not change the Config. A formatted Config shows no secret.
type Config struct {
	// Endpoints are the URLs of the servers, such as "https://10.0.0.5:2379", or of proxies in
	// front of them. All are http or all https. Connections are direct: the environment variables
	// of HTTP proxies are ignored. Required, unless Etcd is set.
	Endpoints []string
	// Prefix of all keys. Default: "/wayleave".
	Prefix string
	// Cluster is the name of the set of objects that the Client uses; it is a part of every key.
	// Several such sets can share one etcd. Default: "default".
	Cluster string
	// TLS applies to endpoints that begin with https://. It is an error to set it with http://
	// endpoints.
	TLS TLS
	// Username and Password of an etcd user, if the server requires authentication. Set both or
	// neither. They are sent to https and to loopback endpoints only.
	Username string
	Password Secret
	// ReadPassword returns the password. Set either ReadPassword or the field Password.
	// ReadPassword is called at each login: before the first request, and when the server rejects
	// the token. It may be called from any goroutine.
	ReadPassword func() (Secret, error) `json:"-"`
	// RequestTimeout is the timeout of each request. Default: 10 s.
	RequestTimeout time.Duration
	// Etcd is an existing client. The caller closes it. Endpoints, TLS, Username, Password and
	// ReadPassword are then ignored.
	Etcd *clientv3.Client
}

func (c Config) withDefaults() Config {
	c.Endpoints = slices.Clone(c.Endpoints)
	c.Prefix = cmp.Or(c.Prefix, "/wayleave")
	c.Cluster = cmp.Or(c.Cluster, "default")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("etcd: Config."+format, args...)) }
	if c.Prefix[0] != '/' || strings.HasSuffix(c.Prefix, "/") {
		bad("Prefix: want a slash at the beginning and none at the end, not %q", c.Prefix)
	}
	if err := checkSegment("Config.Cluster", c.Cluster); err != nil {
		errs = append(errs, err)
	}
	if c.RequestTimeout < 0 {
		bad("RequestTimeout: must not be negative")
	}
	if c.Etcd != nil {
		return errors.Join(errs...)
	}
	if len(c.Endpoints) == 0 {
		bad("Endpoints: required")
	}
	if (c.Username == "") != (c.Password == "" && c.ReadPassword == nil) {
		bad("Username and Password: set both or neither")
	}
	if c.Password != "" && c.ReadPassword != nil {
		bad("Password and ReadPassword: set one of them")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("TLS.CertFile and TLS.KeyFile: set both or neither")
	}
	schemes := map[string]bool{}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err == nil {
			schemes[u.Scheme] = true
		}
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			bad("Endpoints: want http://host:port or https://host:port") // not shown: it may contain a password
		case u.User != nil:
			bad("Endpoints: %s: user and password belong in Username and Password", u.Host)
		case u.Scheme == "https":
		case c.TLS != TLS{}:
			bad("Endpoints: %s: want https, because TLS is set", u.Host)
		case c.Username != "" && !loopback(u.Hostname()):
			bad("Endpoints: %s: a password needs https", u.Host)
		}
	}
	if schemes["http"] && schemes["https"] { // all endpoints share one transport
		bad("Endpoints: want all http or all https")
	}
	return errors.Join(errs...)
}

// encrypted reports whether an endpoint has the scheme https, in upper or lower case.
func encrypted(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https"
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Client is a connection to etcd, limited to the keys of one cluster. Sources, Stores and Reporters
// use it, and may share it.
//
// It is safe for concurrent use.
type Client struct {
	root    string // "<prefix>/<cluster>/"
	timeout time.Duration
	own     bool
	config  clientv3.Config

	dialErrors dialErrors

	mu     sync.Mutex
	etcd   *clientv3.Client // nil until the first request
	closed bool
}

// NewClient returns a client. It sends no request. So if no server answers, or if a server rejects
// the password, only later calls return an error. Errors: an invalid configuration; files that
// cannot be read.
func NewClient(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{
		root: cfg.Prefix + "/" + cfg.Cluster + "/", timeout: cfg.RequestTimeout, etcd: cfg.Etcd, own: cfg.Etcd == nil,
	}
	if !c.own {
		return c, nil
	}
	security := insecure.NewCredentials()
	if slices.ContainsFunc(cfg.Endpoints, encrypted) {
		tlsConfig, err := cfg.TLS.load()
		if err != nil {
			return nil, err
		}
		security = &renewedTLS{credentials.NewTLS(tlsConfig), cfg.TLS}
	}
	c.config = clientv3.Config{
		Endpoints:            cfg.Endpoints,
		Username:             cfg.Username,
		Password:             string(cfg.Password),
		DialTimeout:          cfg.RequestTimeout,
		DialKeepAliveTime:    10 * time.Second, // to detect a connection whose other side is gone
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(), // errors are returned, or reported to hooks
		// The default of gRPC retries only after two minutes if servers were unreachable for long.
		DialOptions: append(c.dialErrors.options(security), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		})),
	}
	if cfg.ReadPassword != nil {
		c.config.Password = hidden // etcd's client logs in only if it has a password
		c.config.DialOptions = append(c.config.DialOptions, grpc.WithChainUnaryInterceptor(logIn(cfg.ReadPassword)))
	}
	return c, nil
}

// Format writes "etcd" and the prefix of the etcd keys that the Client uses. The text is the same
// for every verb, and never has the password.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "etcd "+c.root) }

// conn returns etcd's client. The first call creates the client. If there is a user, this sends a
// login request. If it fails, the next call tries again.
func (c *Client) conn(ctx context.Context) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errors.New("etcd: the client is closed")
	case c.etcd != nil:
		return c.etcd, nil
	}
	base, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	config := c.config
	config.Context = base
	client, err := clientv3.New(config)
	if !stop() { // ctx ended meanwhile, so the new client cannot be used
		if err == nil {
			_ = client.Close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("etcd: connect: %w", c.explain(err))
	}
	c.etcd = client
	return client, nil
}

// load returns the TLS configuration.
func (t TLS) load() (*tls.Config, error) {
	info := transport.TLSInfo{
		CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.CAFile, ServerName: t.ServerName,
		Logger: zap.NewNop(),
	}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd: load TLS files: %w: give valid PEM files", err)
	}
	return config, nil
}

// Unreachable returns "address: cause" for each server to which the last attempt to connect failed.
// The result is empty if there is none. With Config.Etcd it is always empty, because the caller's
// client makes the connections. Unreachable does not send a request.
func (c *Client) Unreachable() string { return c.dialErrors.text() }

// Close closes the connection, but not Config.Etcd. Errors: those of etcd's client.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if !c.own || c.etcd == nil {
		return nil
	}
	client := c.etcd
	c.etcd = nil
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: close: %w", err)
	}
	return nil
}

// key returns a key with the cluster's prefix before it.
func (c *Client) key(rel string) string { return c.root + rel }

// rel returns a key without the cluster's prefix.
func (c *Client) rel(key []byte) string { return string(key[len(c.root):]) }

// request returns a context with the timeout of a request.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}
