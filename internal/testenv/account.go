package testenv

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that servers run as; nil stands for ourselves.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns the account for servers: ourselves, or, as root, one
// that every system has, since PostgreSQL refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var err error
	for _, name := range []string{"postgres", "nobody"} {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, err
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

func (a *account) String() string {
	if a == nil {
		return "(ours)"
	}
	return a.name
}

// ownedBy reports whether a file belongs to that account.
func ownedBy(info os.FileInfo, who *account) bool {
	uid := uint32(os.Geteuid())
	if who != nil {
		uid = who.uid
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == uid
}

// serverEnv is our environment without what would change a server's mind: PG*
// variables, and the locale and time zone of whoever runs the tests.
func serverEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "HOME=/"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case strings.HasPrefix(name, "PG"), strings.HasPrefix(name, "LC_"):
		case name == "LANG", name == "LANGUAGE", name == "TZ", name == "HOME", name == "ENV":
		default:
			env = append(env, v)
		}
	}
	return env
}
