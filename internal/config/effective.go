package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"
)

// A Setting is one line of `makegood config`.
type Setting struct {
	Name   string `json:"name"`   // the environment variable
	Value  string `json:"value"`  // secrets masked
	Source string `json:"source"` // flag, environment or default
}

// Effective lists all settings in a fixed order, with secrets masked and with
// where each came from.
func (c Config) Effective() []Setting {
	var settings []Setting
	for name, field := range c.variables() {
		source := "default"
		if c.flags[name] {
			source = "flag"
		} else if _, ok := os.LookupEnv(name); ok {
			source = "environment"
		}
		settings = append(settings, Setting{Name: name, Value: masked(format(field)), Source: source})
	}
	return settings
}

// Environ returns NAME=value of every setting, for the environment of a child
// process, to be appended to what it inherits: what is empty here is written
// too, and so is not set there. It holds the secrets.
func (c Config) Environ() []string {
	var environ []string
	for name, field := range c.variables() {
		environ = append(environ, name+"="+format(field))
	}
	return environ
}

// LogValue keeps secrets out of logs.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range c.Effective() {
		attrs = append(attrs, slog.String(s.Name, s.Value))
	}
	return slog.GroupValue(attrs...)
}

func format(field reflect.Value) string {
	if d, ok := reflect.TypeAssert[time.Duration](field); ok {
		return formatDuration(d)
	}
	return fmt.Sprint(field.Interface())
}

// formatDuration writes 5m where Go writes 5m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

const mask = "xxxxx"

// masked hides passwords, in the user part of a URL and among its parameters.
// Of a URL that cannot be read only the scheme is left.
func masked(value string) string {
	before, _, isURL := strings.Cut(value, "://")
	if !isURL {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return before + "://" + mask
	}
	query := u.Query()
	secret := false
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Set(key, mask)
			secret = true
		}
	}
	if secret {
		u.RawQuery = query.Encode()
	} else if _, has := u.User.Password(); !has {
		return value
	}
	return u.Redacted()
}
