//! Which layer wins, what is refused, and that the shipped example says what is so.

use std::path::Path;

use super::*;
use crate::config::layers::Origin;

fn file(text: &str) -> Result<File, UsageError> {
    File::parse(Path::new("m.toml"), text.to_owned())
}

fn load(flags: &Flags, environment: &[(&str, &str)], text: &str) -> anyhow::Result<Config> {
    let environment: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::from_layers(flags, &environment, &file(text)?)
}

fn from_file(text: &str) -> anyhow::Result<Config> {
    load(&Flags::default(), &[], text)
}

fn origin(config: &Config, key: &str) -> String {
    let found = config.resolved().iter().find(|resolved| resolved.setting.key == key);
    found.unwrap().origin.to_string()
}

#[test]
fn defaults_are_what_the_manual_says() {
    let config = from_file("").unwrap();

    assert_eq!(config.listen, ["127.0.0.1:4566".parse().unwrap()]);
    assert_eq!(config.data, Path::new("millrace-data"));
    assert_eq!(config.durability, Durability::Fsync);
    assert_eq!((config.region.as_str(), config.account.as_str()), ("us-east-1", "000000000000"));
    assert_eq!(config.limits.in_flight, 120_000);
    assert!(!config.limits.purge_cool_down && !config.limits.recreate_cool_down);
    assert_eq!(config.cors, Cors::Local);
    assert!(config.resolved().iter().all(|resolved| resolved.origin == Origin::Default));
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let flags = Flags { region: Some("flag-1".into()), ..Flags::default() };
    let environment = [("MILLRACE_REGION", "env-1"), ("MILLRACE_LIMITS__IN_FLIGHT", "7")];
    let text = "# comment\nregion = 'file-1'\nworkers = 3\n[limits]\nin_flight = 5\n";

    let config = load(&flags, &environment, text).unwrap();

    assert_eq!(config.region, "flag-1");
    assert_eq!(config.limits.in_flight, 7);
    assert_eq!(config.workers, 3);
    assert_eq!(origin(&config, "region"), "flag --region");
    assert_eq!(origin(&config, "limits.in_flight"), "environment MILLRACE_LIMITS__IN_FLIGHT");
    assert_eq!(origin(&config, "workers"), "m.toml:3");
    assert_eq!(origin(&config, "data"), "default");
}

#[test]
fn keys_and_secrets_have_no_blanks_at_their_ends_and_no_control_characters() {
    let blank = "begins or ends with a blank";
    for (text, fault) in [
        ("SECRET ", blank),
        (" SECRET", blank),
        ("SECRET\u{a0}", blank),
        ("SECRET\u{3000}", blank),
        ("SECRET\n", "contains a control character"),
        ("SE\u{0}CRET", "contains a control character"),
        ("\tSECRET", "contains a control character"),
        ("SECRET\u{7f}", "contains a control character"),
        ("\u{85}SECRET", "contains a control character"),
    ] {
        let escaped: String = text.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        for (key, secret) in [(&*escaped, "s"), ("k", &*escaped)] {
            let name = if key == "k" { "secret_key" } else { "access_key" };
            let pair = format!("access_key = \"{key}\"\nsecret_key = \"{secret}\"\n");
            let error = from_file(&pair).unwrap_err().to_string();
            let line = if key == "k" { 2 } else { 1 };
            assert_eq!(error, format!("{name} (m.toml:{line}): {fault}"));
            let error = from_file(&format!("[[credentials]]\n{pair}")).unwrap_err().to_string();
            assert_eq!(error, format!("m.toml:{}: {name} {fault}", line + 1));
        }
        let error = from_file(&format!("[metrics]\ntoken = \"{escaped}\"")).unwrap_err();
        assert_eq!(error.to_string(), format!("metrics.token (m.toml:2): {fault}"));
        // Variables cannot hold NUL.
        let environment = [("MILLRACE_ACCESS_KEY", "k"), ("MILLRACE_SECRET_KEY", text)];
        let error = load(&Flags::default(), &environment, "").unwrap_err().to_string();
        assert_eq!(error, format!("secret_key (environment MILLRACE_SECRET_KEY): {fault}"));
    }
    let inside = "access_key = 'a b'\nsecret_key = 's e/c+r=é'\n";
    assert_eq!(from_file(inside).unwrap().credentials.len(), 1);
}

#[test]
fn a_file_with_secrets_that_others_can_change_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("m.toml");
    let warnings = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let flags = Flags { config: Some(path.clone()), ..Flags::default() };
        Config::load_without_checks(&flags).unwrap().warnings.len()
    };
    let keys = "[[credentials]]\naccess_key = 'a'\nsecret_key = 'b'\n";
    let single = "access_key = 'a'\nsecret_key = 'b'\n";

    for text in [keys, single, "[metrics]\ntoken = 'b'\n"] {
        assert_eq!((warnings(text, 0o666), warnings(text, 0o640)), (2, 0), "{text}");
    }
    for text in ["", "region = 'eu-1'\n", "secret_key = ''\n"] {
        assert_eq!(warnings(text, 0o666), 0, "{text}");
    }
}

#[test]
fn strict_turns_on_every_limit_of_amazon_whatever_is_given() {
    let given = "[limits]\npurge_cool_down = false\nin_flight = 500_000\n";
    let strict = Flags { strict: true, ..Flags::default() };

    for (flags, text) in
        [(strict, given.to_owned()), (Flags::default(), format!("strict = true\n{given}"))]
    {
        let config = load(&flags, &[], &text).unwrap();
        assert!(config.limits.purge_cool_down && config.limits.recreate_cool_down);
        assert_eq!(config.limits.in_flight, 120_000);
        for key in ["limits.purge_cool_down", "limits.recreate_cool_down", "limits.in_flight"] {
            assert_eq!(origin(&config, key), "strict");
        }
    }

    let lenient = from_file(given).unwrap();
    assert!(!lenient.limits.purge_cool_down && !lenient.limits.recreate_cool_down);
    assert_eq!(lenient.limits.in_flight, 500_000);
    // Below Amazon's limit is strict already.
    let config = from_file("strict = true\n[limits]\nin_flight = 5\n").unwrap();
    assert_eq!((config.limits.in_flight, &*origin(&config, "limits.in_flight")), (5, "m.toml:3"));
}

#[test]
fn a_key_that_is_given_again_takes_the_place_of_the_files() {
    let environment = [("MILLRACE_ACCESS_KEY", "AK"), ("MILLRACE_SECRET_KEY", "new")];
    let text = "[[credentials]]\naccess_key = 'AK'\nsecret_key = 'old'\n";

    let config = load(&Flags::default(), &environment, text).unwrap();

    let [only] = &config.credentials[..] else { panic!("{:?}", config.credentials) };
    assert_eq!(only.secret_key, "new");
}

#[test]
fn texts_may_be_given_as_numbers_of_any_radix() {
    let text = "[queues.q.attributes]\nDelaySeconds = 0x10\n";

    let config = from_file(text).unwrap();

    let delay = ("DelaySeconds".to_owned(), "16".to_owned());
    assert!(config.queues[0].attributes.contains(&delay), "{:?}", config.queues);
}

#[test]
fn regions_are_names() {
    for region in ["", "eu west", "a:b"] {
        assert!(from_file(&format!("region = '{region}'\n")).is_err(), "{region}");
        assert!(from_file(&format!("[queues.q]\nregion = '{region}'\n")).is_err(), "{region}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, message) in [
        ("\nregoin = 'x'", "m.toml:2: unknown key regoin; did you mean region?"),
        ("[limits]\nin_fligth = 5", "did you mean limits.in_flight?"),
        ("[what]\never = 5", "m.toml:2: unknown key what.ever"),
        ("workers = 'three'", "m.toml:1: workers is a whole number, not string"),
        ("workers = -1", "workers (m.toml:1): -1 is not within 0 to 1024"),
        ("durability = 'disk'", "durability (m.toml:1): \"disk\" is not one of fsync, os, memory"),
        ("account = '12'", "not twelve digits"),
        ("public_url = 'host'", "must begin with http://"),
        ("public_url = 'http://x/y/?a'", "must not have a query"),
        ("public_url = 'http://x#a'", "must not have a query"),
        ("public_url = 'http://x y'", "no URL may hold"),
        ("public_url = 'http://u:p@x'", "must not hold a user name"),
        ("traces.endpoint = 'http://x:0'", "valid port"),
        ("cors_origins = ['https://a/page']", "not an origin"),
        ("cors_origins = ['app.example']", "not an origin"),
        ("console_hosts = ['c.example:5756']", "console_hosts (m.toml:1): \"c.example:5756\""),
        ("console_hosts = ['https://c.example']", "not a host name"),
        ("console_hosts = ['c.example/']", "not a host name"),
        ("console_hosts = ['*.example']", "not a host name"),
        ("console_hosts = ['']", "not a host name"),
        ("console_hosts = ['[::1]:5756']", "not a host name"),
        ("tls_cert = 'a'", "tls_cert (m.toml:1): tls_cert and tls_key need each other"),
        ("\nsecret_key = 'a'", "secret_key (m.toml:2): access_key and secret_key need each other"),
        ("log_level = 'loud'", "log_level (m.toml:1): \"loud\": \"loud\" is not one of off, error"),
        ("[metrics]\nqueues = ['a b']", "metrics.queues (m.toml:2): \"a b\" is neither the name"),
        ("[metrics]\nqueues = ['']", "metrics.queues (m.toml:2): \"\" is neither the name"),
        ("listen = ['nowhere']", "listen (m.toml:1): \"nowhere\" is not an address"),
        ("console_listen = 'nowhere'", "console_listen (m.toml:1): \"nowhere\" is not an address"),
        ("cors_origins = ['auto', 'http://a']", "cors_origins (m.toml:1): auto stands alone"),
        ("a = = b", "m.toml:1:"),
        ("[[credentials]]\naccess_key = 'a'", "credentials need access_key and secret_key"),
        ("[[credentials]]\nsecret = 'a'", "m.toml:2: unknown key secret"),
        ("[queues.a]\nvisibilty_timeout = 1", "did you mean visibility_timeout?"),
        (
            "[queues.a]\nvisibility_timeout = 43_201",
            "m.toml:2: visibility_timeout: 43201 is not within 0 to 43200",
        ),
        ("[queues.a]\ndelay_seconds = -1", "m.toml:2: delay_seconds: -1 is not within 0 to 900"),
        ("[queues.a]\nwait_seconds = '1m'", "m.toml:2: wait_seconds: 60 is not within 0 to 20"),
        ("[queues.a]\nwait_seconds = '1min'", "m.toml:2: wait_seconds: \"min\" is not a unit"),
        ("[queues.a]\nwait_seconds = true", "m.toml:2: wait_seconds is a whole number"),
        ("drain_seconds = '2h'", "drain_seconds (m.toml:1): 7200 is not within 0 to 3600"),
        ("drain_seconds = true", "drain_seconds is a duration"),
        ("regoin = 'x'\n[queues.a]\nfifoo = true", "\nm.toml:3: unknown key fifoo"),
        (
            "[queues.a]\ndead_letter_queue = 'b'\nmax_receive_count = 1001",
            "m.toml:3: max_receive_count: 1001 is not within 1 to 1000",
        ),
        ("[queues.a]\nfifo = true", "[queues.\"a.fifo\"]"),
        ("[topics.a]\nfifo = true", "[topics.\"a.fifo\"]"),
        ("[topics]\na = 1", "m.toml:2: a topic is a table: [topics.NAME]"),
        ("[topics.a]\nsubscriptions = [1]", "m.toml:2: subscriptions is a list of tables"),
        ("[[topics.a.subscriptions]]\nraw = true", "m.toml:1: a subscription has a queue or a url"),
        ("[[topics.a.subscriptions]]\nqeue = 'q'", "did you mean queue?"),
        (
            "[[topics.a.subscriptions]]\nqueue = 'q'\n[[topics.a.subscriptions]]\nqueue = 'q'",
            "m.toml:3: a already has a subscription to arn:aws:sqs:us-east-1:000000000000:q",
        ),
        ("[queues.a]\ndead_letter_queue = 'b'", "need each other"),
        ("[queues.a]\ndelay_seconds = 1\nattributes = { DelaySeconds = 2 }", "is given twice"),
        (
            "[queues.a]\ndead_letter_queue = 'b'\nmax_receive_count = 1\n\
             [queues.b]\ndead_letter_queue = 'a'\nmax_receive_count = 1",
            "form a circle",
        ),
    ] {
        let error = from_file(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn a_name_without_an_address_is_no_mistake_for_good() {
    // Too long for a name server to be asked.
    let name = format!("{}.invalid", "a".repeat(64));

    for key in ["listen", "console_listen"] {
        let error = from_file(&format!("{key} = '{name}:4566'")).unwrap_err();

        assert!(!error.is::<UsageError>(), "{error}");
        assert!(error.to_string().starts_with(&format!("{key} (m.toml:1): \"{name}")), "{error}");
    }
    assert!(from_file("listen = 'nowhere'").unwrap_err().is::<UsageError>());
}

#[test]
fn no_address_is_listened_on_twice() {
    let check = |text| from_file(text).unwrap().check();
    for text in [
        "listen = ['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:1']",
        "listen = '127.0.0.1:1'\nconsole_listen = '127.0.0.1:1'",
    ] {
        let refused = check(text).unwrap_err().to_string();
        assert!(refused.starts_with("127.0.0.1:1 is listened on already"), "{refused}");
    }
    assert!(
        check("listen = ['127.0.0.1:0', '127.0.0.1:0']\nconsole_listen = '127.0.0.1:0'").is_ok()
    );
}

#[test]
fn durations_and_addresses_have_one_syntax_in_every_layer() {
    let text = "listen = ['4566', 'localhost:4568']\ndrain_seconds = '1m'\n\
                [queues.a]\nretention_seconds = '4d'\nvisibility_timeout = 45";
    let config = from_file(text).unwrap();
    let from_flag = Flags { drain_seconds: Some("1m30s".into()), ..Flags::default() };
    let from_variable = [("MILLRACE_DRAIN_SECONDS", "5"), ("MILLRACE_CONSOLE_LISTEN", ":80")];

    let listened: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listened, ["127.0.0.1:4566", "127.0.0.1:4568"]);
    assert_eq!(config.drain, Duration::from_secs(60));
    let attributes: Vec<&str> =
        config.queues[0].attributes.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(attributes, ["345600", "45"]);
    assert_eq!(load(&from_flag, &[], "").unwrap().drain, Duration::from_secs(90));
    let config = load(&Flags::default(), &from_variable, "").unwrap();
    assert_eq!(config.drain, Duration::from_secs(5));
    assert_eq!(config.console_listen, Some("127.0.0.1:80".parse().unwrap()));
}

#[test]
fn strict_says_which_settings_it_overrules() {
    let config = from_file("strict = true\n[limits]\nin_flight = 200_000").unwrap();

    assert_eq!(config.limits.in_flight, 120_000);
    assert_eq!(config.overruled, ["limits.in_flight (m.toml:3) is 120000 while strict is on"]);
    assert!(from_file("strict = true").unwrap().overruled.is_empty());
}

#[test]
fn unknown_variables_are_refused() {
    let refused = |name: &str| load(&Flags::default(), &[(name, "1")], "").unwrap_err().to_string();

    assert!(refused("MILLRACE_LISTN").contains("did you mean MILLRACE_LISTEN?"));
    assert!(refused("MILLRACE_QQQQQQQQQQQQQQQQQQ").contains("known are MILLRACE_LISTEN"));
    assert!(load(&Flags::default(), &[("OTHER", "1")], "").is_ok());
}

#[test]
fn variables_of_service_links_are_passed_over() {
    let of_link = [
        ("MILLRACE_SERVICE_HOST", "10.0.0.1"),
        ("MILLRACE_SERVICE_PORT_HTTP", "4566"),
        ("MILLRACE_PORT", "tcp://10.0.0.1:4566"),
        ("MILLRACE_PORT_4566_TCP_ADDR", "10.0.0.1"),
        ("MILLRACE_CONSOLE_SERVICE_PORT", "4567"),
    ];

    assert!(load(&Flags::default(), &of_link, "").is_ok());
    assert!(load(&Flags::default(), &[("MILLRACE_PORT", "4566")], "").is_err());
}

#[test]
fn the_data_directory_has_a_name() {
    assert!(from_file("data = ''").unwrap_err().to_string().contains("data"));
}

const WORKERS: &str = include_str!("../../../../docs/worker.md");

#[test]
fn variables_of_clients_and_workers_are_left_alone() {
    let words = WORKERS.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("MILLRACE_")).collect();
    assert!(named.contains(&"MILLRACE_POST_KEY") && named.contains(&"MILLRACE_GROUP_ID"));

    for name in named.into_iter().chain(["MILLRACE_ATTRIBUTE_listen"]) {
        assert!(load(&Flags::default(), &[(name, "1")], "").is_ok(), "{name}");
    }
    // What is near one of them is still a mistake.
    assert!(load(&Flags::default(), &[("MILLRACE_POST_KEYS", "1")], "").is_err());
}

#[test]
fn the_console_listens_beside_the_services_unless_it_is_off() {
    let default = from_file("").unwrap();
    assert_eq!(default.console_listen, Some("127.0.0.1:4567".parse().unwrap()));
    assert!(default.is_console_optional);
    assert_eq!(from_file("console_listen = 'off'").unwrap().console_listen, None);

    // Who names the default address wants it.
    let named = from_file("console_listen = '127.0.0.1:4567'").unwrap();
    assert_eq!(named.console_listen, default.console_listen);
    assert!(!named.is_console_optional);

    let with = |text: &str| from_file(&format!("console_listen = '0.0.0.0:1'\n{text}")).unwrap();
    assert!(!with("").is_console_optional);
    assert!(with("").check().unwrap_err().to_string().contains("0.0.0.0:1"));
    assert!(with("insecure = true").check().is_ok());
}

#[test]
fn listening_widely_needs_credentials_or_insecure() {
    let with = |text: &str| from_file(&format!("listen = ['0.0.0.0:1']\n{text}")).unwrap().check();

    let refused = with("").unwrap_err().to_string();

    assert!(refused.contains("0.0.0.0:1") && refused.contains("--insecure"));
    assert!(with("insecure = true").is_ok());
    assert!(with("access_key = 'a'\nsecret_key = 'b'").is_ok());
    assert!(with("[[credentials]]\naccess_key = 'a'\nsecret_key = 'b'").is_ok());
}

#[test]
fn pages_may_read_only_what_is_local_unless_configured() {
    let cors = |text: &str| from_file(text).unwrap().cors;

    assert_eq!(cors("listen = ['0.0.0.0:1']"), Cors::Off);
    assert_eq!(cors("listen = ['0.0.0.0:1']\ncors_origins = ['*']"), Cors::Any);
    assert_eq!(cors("cors_origins = []"), Cors::Off);
    assert_eq!(cors("cors_origins = ['http://a']"), Cors::Origins(vec!["http://a".into()]));
    assert_eq!(cors("cors_origins = ['http://a/']"), Cors::Origins(vec!["http://a".into()]));
}

#[test]
fn an_empty_variable_sets_no_number() {
    let environment = [("MILLRACE_LIMITS__IN_FLIGHT", ""), ("MILLRACE_WORKERS", "")];

    let config = load(&Flags::default(), &environment, "[limits]\nin_flight = 5\n").unwrap();

    assert_eq!(config.limits.in_flight, 5);
    assert_eq!(origin(&config, "workers"), "default");
}

#[test]
fn console_hosts_are_names_or_addresses() {
    let text = "console_hosts = ['Console.example', 'my_host-2', '10.1.2.3', '[::1]', '::1']";

    let config = from_file(text).unwrap();

    let expected = ["Console.example", "my_host-2", "10.1.2.3", "[::1]", "::1"];
    assert_eq!(config.console_hosts, expected);
}

#[test]
fn credentials_come_from_the_file_and_the_environment() {
    let text = "account = '111111111111'\n[[credentials]]\naccess_key = 'a'\nsecret_key = 'b'\n\
                account = '222222222222'\nname = 'ci'\n";
    let environment = [("MILLRACE_ACCESS_KEY", "c"), ("MILLRACE_SECRET_KEY", "d")];

    let config = load(&Flags::default(), &environment, text).unwrap();

    let [first, second] = config.credentials.as_slice() else { panic!() };
    assert_eq!((first.account.as_str(), first.name.as_str()), ("222222222222", "ci"));
    assert_eq!((second.access_key.as_str(), second.account.as_str()), ("c", "111111111111"));
    assert!(!format!("{config:?}").contains("secret_key: \"b\""));
}

#[test]
fn queues_come_in_dependency_order() {
    let config = from_file(
        "[queues.jobs]\nvisibility_timeout = 60\ndead_letter_queue = 'jobs-dead'\n\
         max_receive_count = 5\ntags = { team = 'a' }\nattributes = { DelaySeconds = 3 }\n\
         [queues.jobs-dead]\nretention_seconds = 1209600\n\
         [queues.\"orders.fifo\"]\nfifo = true\ncontent_based_deduplication = true\n",
    )
    .unwrap();

    let names: Vec<&str> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
    let jobs = &config.queues[names.iter().position(|name| *name == "jobs").unwrap()];
    let dead = names.iter().position(|name| *name == "jobs-dead");
    assert!(dead < names.iter().position(|name| *name == "jobs"));
    let pairs: Vec<String> =
        jobs.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        pairs,
        [
            "DelaySeconds=3",
            "RedrivePolicy={\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:jobs-dead\",\
         \"maxReceiveCount\":5}",
            "VisibilityTimeout=60",
        ]
    );
    assert_eq!(jobs.tags, [("team".to_owned(), "a".to_owned())]);
    let fifo = config.queues.iter().find(|queue| queue.name == "orders.fifo").unwrap();
    assert_eq!(
        fifo.attributes,
        [
            ("ContentBasedDeduplication".to_owned(), "true".to_owned()),
            ("FifoQueue".to_owned(), "true".to_owned()),
        ]
    );
}

#[test]
fn topics_have_subscriptions() {
    let config = from_file(
        "[topics.\"orders.fifo\"]\ncontent_based_deduplication = true\ntags = { team = 'a' }\n\
         [[topics.\"orders.fifo\".subscriptions]]\nqueue = 'bills.fifo'\nraw = true\n\
         filter = '{\"kind\":[\"bill\"]}'\ndead_letter_queue = 'dead.fifo'\n\
         [[topics.news.subscriptions]]\nurl = 'https://example.com/news'\n",
    )
    .unwrap();
    let orders = config.topics.iter().find(|topic| topic.name == "orders.fifo").unwrap();
    let names = |pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&orders.attributes), ["ContentBasedDeduplication", "FifoTopic"]);
    let bills = &orders.subscriptions[0];
    assert_eq!(bills.endpoint, "arn:aws:sqs:us-east-1:000000000000:bills.fifo");
    assert_eq!(names(&bills.attributes), ["FilterPolicy", "RawMessageDelivery", "RedrivePolicy"]);
    assert!(bills.attributes[2].1.contains("arn:aws:sqs:us-east-1:000000000000:dead.fifo"));
    let news = config.topics.iter().find(|topic| topic.name == "news").unwrap();
    assert_eq!(news.subscriptions[0].protocol, "https");
}

#[test]
fn queues_of_subscriptions_that_are_not_declared_are_told() {
    let text = "[[topics.t.subscriptions]]\nqueue = 'a'\ndead_letter_queue = 'dead'\n\
                [[topics.t.subscriptions]]\nqueue = 'arn:aws:sqs:us-east-1:111111111111:b'\n\
                [[topics.t.subscriptions]]\nurl = 'http://localhost/'\n[queues.a]\n";
    let undeclared = |text: &str| {
        let config = from_file(text).unwrap();
        undeclared_queues(&config.topics, &config.queues, &config.region, &config.account)
    };

    let told = undeclared(text);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("the dead-letter queue arn:aws:sqs:us-east-1:000000000000:dead"));
    assert!(
        told[1].starts_with("the queue arn:aws:sqs:us-east-1:111111111111:b of a subscription")
    );
    let all = "[queues.dead]\n[queues.b]\naccount = '111111111111'\n";
    assert!(undeclared(&format!("{text}{all}")).is_empty());
}

#[test]
fn a_dead_letter_queue_given_by_its_arn_comes_first_too() {
    let arn = "arn:aws:sqs:eu-west-1:111111111111:dead";
    let config = from_file(&format!(
        "account = '111111111111'\n\
         [queues.a]\nregion = 'eu-west-1'\ndead_letter_queue = '{arn}'\nmax_receive_count = 5\n\
         [queues.b]\ndead_letter_queue = 'a'\nmax_receive_count = 5\n\
         [queues.dead]\nregion = 'eu-west-1'\ndead_letter_queue = 'b'\nmax_receive_count = 5\n",
    ))
    .unwrap();

    // The b of eu-west-1 that the last one wants is not the one declared here, in us-east-1.
    let names: Vec<&str> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["b", "dead", "a"]);
}

#[test]
fn dead_letter_queues_given_by_arn_form_no_circle_either() {
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000000:{name}");
    let queue = |name: &str, dead: &str| {
        format!("[queues.{name}]\ndead_letter_queue = '{}'\nmax_receive_count = 1\n", arn(dead))
    };

    let error = from_file(&(queue("a", "b") + &queue("b", "a"))).unwrap_err();

    assert!(error.to_string().contains("form a circle"), "{error}");
}

#[test]
fn a_pattern_of_measured_queues_has_its_star_at_the_end() {
    let queues = |list: &str| from_file(&format!("[metrics]\nqueues = {list}"));

    let config = queues("['orders', 'jobs-*', '*']").unwrap();
    assert_eq!(config.metrics.queues, ["orders", "jobs-*", "*"]);
    for wrong in ["a*b", "*.fifo", "a**"] {
        let error = queues(&format!("['orders', '{wrong}']")).unwrap_err().to_string();
        assert!(error.contains("metrics.queues") && error.contains(wrong), "{error}");
    }
}

const EXAMPLE: &str = include_str!("../../../../docs/millrace.example.toml");

#[test]
fn the_example_names_every_setting_with_its_default() {
    let example = from_file(EXAMPLE).unwrap();
    let defaults = from_file("").unwrap();

    for (given, default) in example.resolved().iter().zip(defaults.resolved()) {
        assert_eq!(given.value, default.value, "{}", given.setting.key);
        // Those without a default are shown in a comment.
        let name = given.setting.key.rsplit('.').next().unwrap();
        let is_shown =
            given.origin != Origin::Default || EXAMPLE.contains(&format!("\n# {name} ="));
        assert!(is_shown, "{} is missing", given.setting.key);
    }
}

#[test]
fn what_the_example_comments_out_is_valid() {
    let uncommented: String = EXAMPLE
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| {
                    rest.starts_with('[')
                        || rest.split_once(" = ").is_some_and(|(key, _)| {
                            key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                        })
                })
                .unwrap_or(line)
        })
        .map(|line| format!("{line}\n"))
        .collect();

    let config = from_file(&uncommented).unwrap();

    assert!(config.tls.is_some());
    assert_eq!(config.credentials.len(), 2);
    assert_eq!(config.queues.len(), 3);
}

#[test]
fn private_networks_may_be_called_where_only_this_machine_reaches_the_server() {
    let allows = |text: &str, address: &str| {
        from_file(text).unwrap().push.network.allows(address.parse().unwrap(), |_| false)
    };
    let open = "listen = ['0.0.0.0:4566']\n";
    for address in ["127.0.0.1", "10.1.2.3"] {
        assert!(allows("", address));
        assert!(!allows("[push]\nprivate_networks = 'refuse'", address));
        assert!(!allows(open, address));
        assert!(!allows("listen = ['127.0.0.1:1', '0.0.0.0:2']", address));
        assert!(allows(&format!("{open}[push]\nprivate_networks = 'allow'"), address));
    }
    let some = format!("{open}[push]\nallowed_networks = ['10.1.0.0/16', '::1']");
    assert!(allows(&some, "10.1.2.3") && allows(&some, "::1") && !allows(&some, "10.2.0.1"));
    assert!(!allows("[push]\nprivate_networks = 'allow'", "169.254.169.254"));

    let error = from_file("[push]\nallowed_networks = ['10.1']").unwrap_err().to_string();
    assert_eq!(
        error,
        "push.allowed_networks (m.toml:2): \"10.1\" is not a network such as 10.1.0.0/16, or an \
         address"
    );
    from_file("[push]\nprivate_networks = 'yes'").unwrap_err();
}
