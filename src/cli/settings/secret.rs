//! Which settings are secrets: they are shown as `********`, everywhere.

/// What stands for a secret.
pub const MASK: &str = "********";

/// Parts of names of secret settings. A location of a file is not a secret.
const SECRET: [&str; 6] = ["password", "secret", "key.pem", "keystore.pem", "sasl.jaas", "oauthbearer.config"];

/// Whether a setting's value must not be shown.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_keys_are_secrets_and_locations_are_not() {
        for key in [
            "kafka.sasl.password",
            "kafka.ssl.key.password",
            "kafka.ssl.key.pem",
            "kafka.ssl.keystore.password",
            "kafka.sasl.oauthbearer.client.secret",
            "kafka.sasl.oauthbearer.config",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["kafka.ssl.key.location", "kafka.sasl.username", "kafka.ssl.ca.pem", "group"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
