// SPDX-License-Identifier: Apache-2.0

package etcd

import (
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

// Secret is a text that does not show when it is formatted, logged or encoded. It is a plain value
// and safe for concurrent use.
type Secret string

const hidden = "(secret)"

// Format writes "(secret)", whatever the verb, or nothing for an empty one.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		_, _ = io.WriteString(f, hidden)
	}
}

// LogValue hides the text from package slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(s)) }

// MarshalText hides the text from encoders. It never fails.
func (s Secret) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(s)), nil }

// TLS names the files of a TLS client. The zero value means the system's CAs and no client
// certificate. All files are read again for every connection, so that they can be renewed in place.
//
// It is a plain value and safe for concurrent use.
type TLS struct {
	// CAFile holds the CA certificates that the servers' certificates are checked against, PEM.
	// Empty: the system's.
	CAFile string
	// CertFile and KeyFile hold the client's certificate and key, PEM. Both or neither.
	CertFile, KeyFile string
	// ServerName overrides the name that the servers' certificates are checked for.
	ServerName string
}

// Config says which etcd to speak to, as whom, and which part of its key space to use.
//
// It is a plain value and is not changed by the Client. Formatting it shows no secret.
type Config struct {
	// Endpoints are the servers, as in "https://10.0.0.5:2379", all of them http or all https; the
	// proxies, where there are some. They are connected to directly, whatever the environment says
	// of HTTP proxies. Required, unless Etcd is set.
	Endpoints []string
	// Prefix that all keys begin with. Default: "/wayleave".
	Prefix string
	// Cluster is a name for this set of objects: several may share a database. Default: "default".
	Cluster string
	// TLS is used with endpoints that begin with https://. Setting it together with one that begins
	// with http:// is an error.
	TLS TLS
	// Username and Password of an etcd user, where the server has authentication switched on. Both
	// or neither. They are sent to https and to loopback endpoints only.
	Username string
	Password Secret
	// ReadPassword returns the password, in place of Password. It is called at each login: before
	// the first request, and when the server rejects the token. It may be called from any
	// goroutine.
	ReadPassword func() (Secret, error) `json:"-"`
	// RequestTimeout bounds each request. Default: 10 s.
	RequestTimeout time.Duration
	// Etcd is an existing client, which the caller closes. Endpoints, TLS, Username, Password and
	// ReadPassword are then ignored.
	Etcd *clientv3.Client
}

func (c Config) withDefaults() Config {
	c.Endpoints = slices.Clone(c.Endpoints)
	if c.Prefix == "" {
		c.Prefix = "/wayleave"
	}
	if c.Cluster == "" {
		c.Cluster = "default"
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("etcd: "+format, args...)) }
	if c.Prefix[0] != '/' || strings.HasSuffix(c.Prefix, "/") {
		bad("Prefix: want a slash at the beginning and none at the end, not %q", c.Prefix)
	}
	if err := checkSegment("Cluster", c.Cluster); err != nil {
		errs = append(errs, err)
	}
	if c.RequestTimeout < 0 {
		bad("RequestTimeout is negative")
	}
	if c.Etcd != nil {
		return errors.Join(errs...)
	}
	if len(c.Endpoints) == 0 {
		bad("Endpoints: required")
	}
	if (c.Username == "") != (c.Password == "" && c.ReadPassword == nil) {
		bad("Username and Password: both or neither")
	}
	if c.Password != "" && c.ReadPassword != nil {
		bad("Password and ReadPassword: one of them")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("TLS.CertFile and TLS.KeyFile: both or neither")
	}
	schemes := map[string]bool{}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err == nil {
			schemes[u.Scheme] = true
		}
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			bad("endpoint: want http://host:port or https://host:port") // not shown: it may hold a password
		case u.User != nil:
			bad("endpoint %s: user and password belong in Username and Password", u.Host)
		case u.Scheme == "https":
		case c.TLS != TLS{}:
			bad("endpoint %s: http, although TLS is set", u.Host)
		case c.Username != "" && !loopback(u.Hostname()):
			bad("endpoint %s: a password needs https", u.Host)
		}
	}
	if schemes["http"] && schemes["https"] { // there is one transport for all
		bad("Endpoints: all http or all https")
	}
	return errors.Join(errs...)
}

// encrypted reports whether an endpoint asks for TLS, in whatever letters.
func encrypted(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https"
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Client is a connection to etcd and the part of its key space that one cluster has. Make a Source,
// a Store or a Reporter with it; any number may share one.
//
// It is safe for concurrent use.
type Client struct {
	root    string // "<prefix>/<cluster>/"
	timeout time.Duration
	own     bool
	config  clientv3.Config

	dialErrors dialErrors

	mu     sync.Mutex
	etcd   *clientv3.Client // nil until it is needed
	closed bool
}

// NewClient returns a client. It does not speak to the servers yet: that they do not answer, or
// refuse the password, is for those who use the client to find out. Errors: of the configuration,
// and of files that cannot be read.
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
		DialKeepAliveTime:    10 * time.Second, // a connection that died without a word is noticed
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(), // errors are returned, or reported to hooks
		// Otherwise servers that were away for long are not looked for again before two minutes
		// have passed.
		DialOptions: append(c.dialErrors.options(security), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		})),
	}
	if cfg.ReadPassword != nil {
		c.config.Password = hidden // etcd's client logs in only where there is one
		c.config.DialOptions = append(c.config.DialOptions, grpc.WithChainUnaryInterceptor(logIn(cfg.ReadPassword)))
	}
	return c, nil
}

// Format writes which keys the client has, whatever the verb: beneath it is the password.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "etcd "+c.root) }

// conn returns the client of etcd. The first call makes it, which with a user means a request to
// the server, and is repeated by the next call if it fails.
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
	if !stop() { // ctx was done meanwhile, and what was made with it is dead
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

// load makes the TLS configuration.
func (t TLS) load() (*tls.Config, error) {
	info := transport.TLSInfo{
		CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.CAFile, ServerName: t.ServerName,
		Logger: zap.NewNop(),
	}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd: load TLS files: %w", err)
	}
	return config, nil
}

// Unreachable returns "address: cause" for each server that could not be reached. It is empty if
// there is none, or if Config.Etcd is set. It does not wait for the timeout of a request.
func (c *Client) Unreachable() string { return c.dialErrors.text() }

// Close ends the connection, unless it is the caller's own. Errors: those of etcd's client.
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

// key returns a key of this cluster.
func (c *Client) key(rel string) string { return c.root + rel }

// rel returns a key's part below the cluster's own.
func (c *Client) rel(key []byte) string { return string(key[len(c.root):]) }

// request bounds one request.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}
